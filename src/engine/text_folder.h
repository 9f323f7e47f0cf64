// The text side of a model folder: tokenizer, chat template, generation defaults. Needs no weights.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "checkpoint/hf_config.h"
#include "fathom/model.h"
#include "text/chat_prompt.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace fathom {

class TextFolder {
 public:
  // Error(io) where the folder has no tokenizer.json. `chat_template`: a file used instead of the
  // folder's own template; "": none.
  static TextFolder open(const std::string& folder, const std::string& chat_template = "");
  static bool present(const std::string& folder);

  const Tokenizer& tokenizer() const { return tokenizer_; }
  // Error(input) where the folder carries no chat template.
  const ChatTemplate& chat_template() const;

  // Ids in front of every raw prompt, where something else than the tokenizer's files says so.
  void begin_raw_prompts_with(const std::vector<int64_t>& ids);

  // See Model::raw_prompt and Model::render.
  Prompt raw_prompt(std::string_view text) const;
  Prompt render(std::string_view messages_json, const RenderOptions& options) const;
  // The rendered pieces themselves.
  ChatPrompt render_pieces(std::string_view messages_json, const RenderOptions& options) const;

 private:
  TextFolder(Tokenizer tokenizer, std::string folder)
      : tokenizer_(std::move(tokenizer)), folder_(std::move(folder)) {}

  Tokenizer tokenizer_;
  std::optional<ChatTemplate> template_;
  std::string folder_;
  std::vector<TokenId> prompt_start_;
};

// generation_config.json of a folder; what it lacks (or all, where there is none) comes from
// config.json.
GenerationConfig read_generation_config(const std::string& folder);

}  // namespace fathom
