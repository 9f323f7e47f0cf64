#include "engine/text_folder.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "checkpoint/model_folder.h"
#include "text/reasoning.h"

namespace fathom {

bool TextFolder::present(const std::string& folder) {
  return path_exists(folder + "/tokenizer.json");
}

TextFolder TextFolder::open(const std::string& folder) {
  if (!present(folder)) {
    fail(ErrorKind::io, "{}: there is no tokenizer.json, which text needs", folder);
  }
  TextFolder text(Tokenizer::load(folder), folder);
  const std::string& source = text.tokenizer_.chat_template();
  if (source.empty()) return text;
  const std::string own_file = folder + "/chat_template.jinja";
  text.template_ = ChatTemplate::parse(
      source, path_exists(own_file) ? own_file : folder + "/tokenizer_config.json: chat_template");
  return text;
}

Prompt TextFolder::raw_prompt(std::string_view text) const {
  Prompt prompt;
  prompt.ids = tokenizer_.encode(text, ControlTokens::parse);
  const std::optional<TokenId> bos = tokenizer_.id_of(tokenizer_.bos_token());
  if (bos && tokenizer_.add_bos_token() && (prompt.ids.empty() || prompt.ids.front() != *bos)) {
    prompt.ids.insert(prompt.ids.begin(), *bos);
  }
  prompt.opens_thought = prompt_opens_thought(text);
  return prompt;
}

const ChatTemplate& TextFolder::chat_template() const {
  if (!template_) {
    fail_input("{}: there is no chat template (tokenizer_config.json, chat_template.jinja)",
               folder_);
  }
  return *template_;
}

RenderedPrompt TextFolder::render_pieces(std::string_view messages_json,
                                         bool add_generation_prompt) const {
  const nlohmann::ordered_json messages = parse_ordered_json(messages_json, "messages");
  RenderOptions options;
  options.add_generation_prompt = add_generation_prompt;
  return chat_template().render(normalise_messages(messages), tokenizer_, options);
}

Prompt TextFolder::render(std::string_view messages_json, bool add_generation_prompt) const {
  const RenderedPrompt pieces = render_pieces(messages_json, add_generation_prompt);
  Prompt prompt;
  prompt.ids = encode_prompt(pieces, tokenizer_);
  prompt.opens_thought = prompt_opens_thought(pieces.text());
  return prompt;
}

GenerationConfig read_generation_config(const std::string& folder) {
  const std::string path = folder + "/generation_config.json";
  const std::string model_path = folder + "/config.json";
  constexpr uint64_t kMostBytes = 1 << 20;
  // The reference fills in what the one lacks from the other, which has the same fields.
  GenerationConfig model = parse_generation_config(read_text(model_path, kMostBytes), model_path);
  if (!path_exists(path)) return model;  // a link that leads nowhere is named by read_text()
  GenerationConfig config = parse_generation_config(read_text(path, kMostBytes), path);
  if (config.eos_token_ids.empty()) config.eos_token_ids = model.eos_token_ids;
  if (!config.bos_token_id) config.bos_token_id = model.bos_token_id;
  return config;
}

}  // namespace fathom
