// Chat templates: whatever the source says, it renders or fails with an error that names the line,
// within the limits of time and memory.
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/error.h"
#include "text/chat_template.h"

namespace {

const fathom::Tokenizer& tokenizer() {
  static const fathom::Tokenizer instance = fathom::Tokenizer::parse(
      R"({"model": {"type": "BPE", "vocab": {"a": 0}, "merges": []}, "added_tokens": [],
          "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "use_regex": false},
          "decoder": {"type": "ByteLevel"}})",
      "tokenizer.json");
  return instance;
}

const nlohmann::ordered_json& messages() {
  static const nlohmann::ordered_json json = nlohmann::ordered_json::parse(R"([
    {"role": "system", "content": "be brief"},
    {"role": "user", "content": "1 + 1? \u00e9 <think>"},
    {"role": "assistant", "content": null, "tool_calls": [{"id": "c", "type": "function",
      "function": {"name": "f", "arguments": "{\"a\": [1, 2.5, true, null]}"}}]},
    {"role": "tool", "content": "2"},
    {"role": "assistant", "content": "<think>\nadd\n</think>\n\n2"},
    {"role": "user", "content": "thanks"}])");
  return json;
}

void check_message(std::string_view message) {
  if (message.rfind("template, line ", 0) != 0) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view source(reinterpret_cast<const char*>(data), size);
  const fathom::Tokenizer& vocabulary = tokenizer();
  try {
    const auto chat_template = fathom::ChatTemplate::parse(source, "template");
    const auto prompt = chat_template.render(messages(), vocabulary);
    std::string text;
    for (const auto& piece : prompt.pieces) text += piece.text;
    if (text != prompt.text()) std::abort();
  } catch (const fathom::Error& error) {
    check_message(error.what());
  }
  return 0;
}
