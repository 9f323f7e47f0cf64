// What a generation is asked with: sampling, length, stops. Values that people write are parsed and
// checked here, before anything is loaded.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "checkpoint/hf_config.h"
#include "fathom/model.h"

namespace fathom::cli {

struct AskOptions {
  SamplingRequest sampling;  // its seed counts for nothing before choose_seed()
  std::optional<uint64_t> seed;
  std::vector<std::string> stop;
  std::vector<int32_t> stop_ids;
  int64_t max_tokens = 0;
  bool ignore_eos = false;
  std::optional<int64_t> reasoning_budget;
  OutputFormat format;  // its schema: a file's name before read_format()
};

// Whole numbers and fractions, the whole of the text; Error(usage) naming `option` where it is not
// one or lies outside [least, most].
int64_t parse_integer(std::string_view text, std::string_view option, int64_t least, int64_t most);
uint64_t parse_seed(std::string_view text, std::string_view option);
double parse_real(std::string_view text, std::string_view option);
// "4096", "16K" (16384).
int64_t parse_token_count(std::string_view text, std::string_view option);
// Ids between commas or white space, with or without brackets. May be empty.
std::vector<int32_t> parse_ids(std::string_view text, std::string_view option);
// "ID=VALUE".
std::pair<int32_t, double> parse_logit_bias(std::string_view text, std::string_view option);

// Error(usage) naming the option where the library refuses a value.
void check_sampling(const SamplingRequest& request);

// A sampling value that is in force, and where it comes from.
struct SamplingInForce {
  double temperature = 1;
  std::string text;  // all of them: "temperature 0.6 (generation_config.json), top_p off, ..."
};
SamplingInForce sampling_in_force(const SamplingRequest& request, const GenerationConfig& defaults);

// The seed given, or a fresh one where tokens are drawn: short enough to be typed, and whole in
// every JSON reader.
uint64_t choose_seed(const std::optional<uint64_t>& given, double temperature);

}  // namespace fathom::cli
