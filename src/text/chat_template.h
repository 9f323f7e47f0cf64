// Messages to prompt: the model's own Jinja template, with user text that stays text.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace fathom {

// A run of rendered text. `trusted` text comes from the template itself, so its control tokens
// count; the rest comes from messages and is encoded with ControlTokens::as_text.
struct PromptPiece {
  std::string text;
  bool trusted = false;
};

struct RenderedPrompt {
  std::vector<PromptPiece> pieces;
  std::string text() const;
};

struct TemplateOptions {
  bool add_generation_prompt = true;
  // Further template variables (tools, enable_thinking, ...): an object, may be null.
  const nlohmann::ordered_json* variables = nullptr;
};

class ChatTemplate {
 public:
  // Error(input) that names the template and the line where it cannot be parsed.
  static ChatTemplate parse(std::string_view source, const std::string& name);
  ChatTemplate(ChatTemplate&&) noexcept;
  ChatTemplate& operator=(ChatTemplate&&) noexcept;
  ~ChatTemplate();

  // `messages` is an array of {role, content, ...} as in the OpenAI API; normalise_messages()
  // first. bos_token and eos_token come from the tokenizer. Errors name the template's line.
  RenderedPrompt render(const nlohmann::ordered_json& messages, const Tokenizer& tokenizer,
                        const TemplateOptions& options = {}) const;
  // Whether descriptions of tools reach the prompt through the variable `tools`.
  bool reads_tools() const;

 private:
  struct Impl;
  explicit ChatTemplate(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// Checks messages and brings them into the one form that templates know: content parts of type text
// are joined (other kinds refused), a call message without content gets null, null content
// elsewhere is refused, reasoning_content / reasoning are dropped, an unclosed leading think block
// of an earlier assistant turn is dropped, tool-call arguments given as objects become JSON text.
// Errors are Error(input) whose message begins with the field's path, e.g. "messages[0].content[0]:
// ...".
nlohmann::ordered_json normalise_messages(const nlohmann::ordered_json& messages);

// Ids of a rendered prompt. Control tokens are looked for in trusted text only (trusted pieces that
// touch are joined first). What lies between two of them, trusted or not, is encoded as one text in
// which nothing is a control token: so a prompt whose messages quote no control token gets the ids
// that its whole text has.
std::vector<TokenId> encode_prompt(const RenderedPrompt& prompt, const Tokenizer& tokenizer);

}  // namespace fathom
