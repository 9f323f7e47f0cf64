#include "cli/ask_options.h"

#include <charconv>
#include <cmath>
#include <functional>
#include <limits>
#include <random>

#include "base/error.h"
#include "sample/sampler.h"

namespace fathom::cli {
namespace {

template <typename Number>
bool parse_whole(std::string_view text, Number* value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *value);
  return error == std::errc() && end == text.data() + text.size();
}

bool separates(char c) {
  return c == ',' || c == ' ' || c == '\n' || c == '\t' || c == '\r' || c == '[' || c == ']';
}

std::string value_text(double value, const char* source, bool off) {
  return off ? fmt::format("off ({})", source) : fmt::format("{:g} ({})", value, source);
}

}  // namespace

int64_t parse_integer(std::string_view text, std::string_view option, int64_t least, int64_t most) {
  int64_t value = 0;
  if (!parse_whole(text, &value)) fail_usage("{}: '{}' is not a whole number", option, text);
  if (value < least) fail_usage("{}: {} is less than {}", option, value, least);
  if (value > most) fail_usage("{}: {} is more than {}", option, value, most);
  return value;
}

uint64_t parse_seed(std::string_view text, std::string_view option) {
  uint64_t value = 0;
  if (!parse_whole(text, &value)) {
    fail_usage("{}: '{}' is not a whole number from 0 to 2^64-1", option, text);
  }
  return value;
}

double parse_real(std::string_view text, std::string_view option) {
  double value = 0;
  if (!parse_whole(text, &value) || !std::isfinite(value)) {
    fail_usage("{}: '{}' is not a number", option, text);
  }
  return value;
}

int64_t parse_token_count(std::string_view text, std::string_view option) {
  constexpr int64_t kMost = int64_t{1} << 40;
  int64_t unit = 1;
  std::string_view number = text;
  if (number.ends_with('K') || number.ends_with('k')) unit = 1024;
  if (number.ends_with('M') || number.ends_with('m')) unit = 1024 * 1024;
  if (unit > 1) number.remove_suffix(1);
  int64_t value = 0;
  if (!parse_whole(number, &value)) {
    fail_usage("{}: '{}' is not a number of tokens, such as 4096 or 16K", option, text);
  }
  if (value < 1) fail_usage("{}: {} is less than 1", option, text);
  if (value > kMost / unit) fail_usage("{}: {} is too large", option, text);
  return value * unit;
}

std::vector<int32_t> parse_ids(std::string_view text, std::string_view option) {
  std::vector<int32_t> ids;
  size_t at = 0;
  while (at < text.size()) {
    if (separates(text[at])) {
      ++at;
      continue;
    }
    size_t end = at;
    while (end < text.size() && !separates(text[end])) ++end;
    const std::string_view word = text.substr(at, end - at);
    int32_t id = 0;
    if (!parse_whole(word, &id) || id < 0) {
      fail_usage("{}: '{}' (place {}) is not a token id", option, word.substr(0, 40), ids.size());
    }
    ids.push_back(id);
    at = end;
  }
  return ids;
}

std::pair<int32_t, double> parse_logit_bias(std::string_view text, std::string_view option) {
  const size_t equals = text.find('=');
  if (equals == std::string_view::npos) {
    fail_usage("{}: '{}' is not of the form ID=VALUE", option, text);
  }
  const int64_t id =
      parse_integer(text.substr(0, equals), option, 0, std::numeric_limits<int32_t>::max());
  return {static_cast<int32_t>(id), parse_real(text.substr(equals + 1), option)};
}

void check_sampling(const SamplingRequest& request) {
  // One field at a time, so that the message can name the option it came by.
  const auto check = [](const char* option, const std::function<void(SamplingOptions&)>& set) {
    SamplingOptions options;
    set(options);
    try {
      validate(options);
    } catch (const Error& error) {
      throw Error(error.kind(), std::string(option) + ": " + error.what());
    }
  };
  if (request.temperature) check("--temp", [&](auto& o) { o.temperature = *request.temperature; });
  if (request.top_k) check("--top-k", [&](auto& o) { o.top_k = *request.top_k; });
  if (request.top_p) check("--top-p", [&](auto& o) { o.top_p = *request.top_p; });
  if (request.min_p) check("--min-p", [&](auto& o) { o.min_p = *request.min_p; });
  if (request.repetition_penalty) {
    check("--repeat-penalty", [&](auto& o) { o.repetition_penalty = *request.repetition_penalty; });
  }
  check("--presence-penalty", [&](auto& o) { o.presence_penalty = request.presence_penalty; });
  check("--frequency-penalty", [&](auto& o) { o.frequency_penalty = request.frequency_penalty; });
  check("--logit-bias", [&](auto& o) { o.logit_bias = request.logit_bias; });
}

SamplingInForce sampling_in_force(const SamplingRequest& request,
                                  const GenerationConfig& defaults) {
  constexpr const char* kFile = "generation_config.json";
  constexpr const char* kDefault = "default";
  constexpr const char* kOption = "option";
  SamplingInForce force;
  const bool greedy_by_default = defaults.do_sample == false;
  const char* source = kOption;
  if (request.temperature) {
    force.temperature = *request.temperature;
  } else if (greedy_by_default) {
    force.temperature = 0;
    source = kFile;
  } else {
    force.temperature = defaults.temperature.value_or(1.0);
    source = defaults.temperature ? kFile : kDefault;
  }
  if (force.temperature < 1e-6) {
    force.text = fmt::format("greedy (temperature {:g}, {})", force.temperature, source);
  } else {
    force.text = "temperature " + value_text(force.temperature, source, false);
    const auto add = [&](const char* name, auto given, auto from_file, double off_value) {
      const double value = given       ? static_cast<double>(*given)
                           : from_file ? static_cast<double>(*from_file)
                                       : off_value;
      if (!given && !from_file) return;  // only what changes something is worth a word
      force.text += fmt::format(", {} ", name) +
                    value_text(value, given ? kOption : kFile, value == off_value);
    };
    add("top_k", request.top_k, defaults.top_k, 0);
    add("top_p", request.top_p, defaults.top_p, 1);
    add("min_p", request.min_p, defaults.min_p, 0);
  }
  const double repetition =
      request.repetition_penalty.value_or(defaults.repetition_penalty.value_or(1.0));
  if (repetition != 1) {
    force.text += ", repetition_penalty " +
                  value_text(repetition, request.repetition_penalty ? kOption : kFile, false);
  }
  if (request.presence_penalty != 0) {
    force.text += fmt::format(", presence_penalty {:g} ({})", request.presence_penalty, kOption);
  }
  if (request.frequency_penalty != 0) {
    force.text += fmt::format(", frequency_penalty {:g} ({})", request.frequency_penalty, kOption);
  }
  if (!request.logit_bias.empty()) {
    force.text += fmt::format(", logit_bias on {} tokens ({})", request.logit_bias.size(), kOption);
  }
  return force;
}

uint64_t choose_seed(const std::optional<uint64_t>& given, double temperature) {
  if (given) return *given;
  if (temperature < 1e-6) return 0;
  return std::random_device()() & 0xffffffffU;
}

}  // namespace fathom::cli
