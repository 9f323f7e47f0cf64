#include "server/openai/prompt_fields.h"

#include <array>
#include <nlohmann/json.hpp>
#include <span>

#include "server/openai/api_error.h"
#include "server/openai/fields.h"

namespace fathom::server {
namespace {

using json = nlohmann::ordered_json;

constexpr size_t kMostPrompts = 128;

void read_prompt(const json& value, const std::string& name, bool echo, const Model& model,
                 OpenAiRequest* parsed) {
  Prompt prompt;
  if (value.is_string()) {
    prompt = model.raw_prompt(value.get<std::string>());
  } else if (value.is_array()) {
    prompt.ids = token_ids(value, name);
  } else {
    refuse_field(name, "it is neither a string nor an array of token ids");
  }
  if (echo && !prompt.ids.empty()) {
    for (const int32_t id : prompt.ids) {
      if (id < model.info().vocab_size) continue;
      refuse_field("prompt", "token {} is outside the vocabulary of {}", id,
                   model.info().vocab_size);
    }
    Echo echoed;
    echoed.text = value.is_string() ? value.get<std::string>() : model.detokenize(prompt.ids);
    echoed.first_token = model.detokenize(std::span(prompt.ids).first(1));
    echoed.first_is_text = echoed.text.starts_with(echoed.first_token);
    parsed->echoes.push_back(std::move(echoed));
  }
  parsed->prompts.push_back(std::move(prompt));
}

// The names of the three tokens, and where the gap's text is written: DeepSeek's and Qwen's
// vocabularies.
struct GapTokens {
  const char* begin;
  const char* hole;
  const char* end;
};
constexpr std::array<GapTokens, 2> kGapTokens = {
    {{"<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>"},
     {"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"}}};

}  // namespace

void read_prompts(const json* value, bool echo, const Model& model, OpenAiRequest* parsed) {
  if (value == nullptr) refuse_field("prompt", "it is missing");
  const bool several = value->is_array() && !value->empty() && !value->front().is_number();
  if (!several) return read_prompt(*value, "prompt", echo, model, parsed);
  if (value->size() > kMostPrompts) {
    refuse_field("prompt", "{} prompts are more than {}", value->size(), kMostPrompts);
  }
  for (size_t i = 0; i < value->size(); ++i) {
    read_prompt((*value)[i], fmt::format("prompt[{}]", i), echo, model, parsed);
  }
}

Prompt fill_in_prompt(const json* prefix, const std::string& suffix, const Model& model) {
  if (prefix == nullptr || !prefix->is_string()) {
    refuse_field("prompt", "with a suffix it must be a string");
  }
  for (const GapTokens& tokens : kGapTokens) {
    const auto one = [&model](const char* name) { return model.tokenize(name).size() == 1; };
    if (!one(tokens.begin) || !one(tokens.hole) || !one(tokens.end)) continue;
    Prompt prompt = model.raw_prompt(tokens.begin);
    const auto add = [&](const std::string& text, bool control) {
      const std::vector<int32_t> ids = model.tokenize(text, control);
      prompt.ids.insert(prompt.ids.end(), ids.begin(), ids.end());
    };
    add(prefix->get<std::string>(), false);
    add(tokens.hole, true);
    add(suffix, false);
    add(tokens.end, true);
    return prompt;
  }
  refuse_field("suffix", "this model has no tokens for filling in");
}

bool asks_to_continue(const json& messages) {
  if (!messages.is_array() || messages.empty() || !messages.back().is_object()) return false;
  const auto prefix = messages.back().find("prefix");
  return prefix != messages.back().end() && prefix->is_boolean() && prefix->get<bool>();
}

}  // namespace fathom::server
