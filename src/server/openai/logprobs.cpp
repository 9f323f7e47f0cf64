#include "server/openai/logprobs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "text/json_output.h"
#include "text/utf8_stream.h"

namespace fathom::server {
namespace {

// What stands for the logarithm of zero, which JSON has no number for.
constexpr double kImpossible = -9999;

std::string logprob_json(float logprob) {
  return json_number(std::isfinite(logprob) ? static_cast<double>(logprob) : kImpossible);
}

std::string bytes_json(const std::string& bytes) {
  std::string text = "[";
  for (const char c : bytes) {
    if (text.size() > 1) text += ',';
    text += std::to_string(static_cast<unsigned char>(c));
  }
  return text + "]";
}

JsonObject chat_token(const TokenLogprob& token) {
  return JsonObject()
      .text("token", token.bytes)
      .raw("logprob", logprob_json(token.logprob))
      .raw("bytes", bytes_json(token.bytes));
}

// Part of a character has no text: "bytes:\xf0\x9f", as the endpoint has always written it.
std::string completion_token(const std::string& bytes) {
  if (repair_utf8(bytes) == bytes) return bytes;
  std::string text = "bytes:";
  for (const char c : bytes) text += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
  return text;
}

void append(std::string& list, const std::string& json) {
  if (!list.empty()) list += ',';
  list += json;
}

// The most probable tokens by their text, and the chosen one where it is none of them.
std::string top_json(const PositionLogprobs& position) {
  JsonObject object;
  std::vector<std::string> names;
  const auto add = [&](const TokenLogprob& token) {
    std::string name = completion_token(token.bytes);
    if (std::find(names.begin(), names.end(), name) != names.end()) return;
    object.raw(name, logprob_json(token.logprob));
    names.push_back(std::move(name));
  };
  for (const TokenLogprob& token : position.top) add(token);
  add(position.chosen);
  return object.str();
}

}  // namespace

std::string chat_logprobs(std::span<const PositionLogprobs> positions) {
  std::string entries;
  for (const PositionLogprobs& position : positions) {
    std::string top;
    for (const TokenLogprob& token : position.top) append(top, chat_token(token).str());
    append(entries, chat_token(position.chosen).raw("top_logprobs", "[" + top + "]").str());
  }
  return JsonObject().raw("content", "[" + entries + "]").raw("refusal", "null").str();
}

void CompletionLogprobs::add_token(const std::string& bytes) {
  append(tokens_, json_string(completion_token(bytes)));
  append(offsets_, std::to_string(offset_));
  offset_ += std::count_if(bytes.begin(), bytes.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xc0) != 0x80;  // a character's first byte
  });
}

void CompletionLogprobs::add_first(const std::string& token, bool stands_in_text) {
  add_token(token);
  if (!stands_in_text) offset_ = 0;
  append(logprobs_, "null");
  append(top_, "null");
}

void CompletionLogprobs::add(std::span<const PositionLogprobs> positions) {
  for (const PositionLogprobs& position : positions) {
    add_token(position.chosen.bytes);
    append(logprobs_, logprob_json(position.chosen.logprob));
    append(top_, top_json(position));
  }
}

std::string CompletionLogprobs::take() {
  const std::string json = JsonObject()
                               .raw("tokens", "[" + tokens_ + "]")
                               .raw("token_logprobs", "[" + logprobs_ + "]")
                               .raw("top_logprobs", "[" + top_ + "]")
                               .raw("text_offset", "[" + offsets_ + "]")
                               .str();
  for (std::string* list : {&tokens_, &logprobs_, &top_, &offsets_}) list->clear();
  return json;
}

}  // namespace fathom::server
