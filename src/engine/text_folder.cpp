#include "engine/text_folder.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "checkpoint/model_folder.h"
#include "text/reasoning.h"
#include "text/utf8_stream.h"

namespace fathom {
namespace {

constexpr uint64_t kLargestTemplate = 16 << 20;

}  // namespace

bool TextFolder::present(const std::string& folder) {
  return path_exists(folder + "/tokenizer.json");
}

TextFolder TextFolder::open(const std::string& folder, const std::string& chat_template) {
  if (!present(folder)) {
    fail(ErrorKind::io, "{}: there is no tokenizer.json, which text needs", folder);
  }
  TextFolder text(Tokenizer::load(folder), folder);
  if (!chat_template.empty()) {
    const std::string given = read_text(chat_template, kLargestTemplate);
    const size_t invalid = find_invalid_utf8(given);
    if (invalid != std::string::npos) {
      fail_input("{}: invalid UTF-8 at offset {}", chat_template, invalid);
    }
    text.template_ = ChatTemplate::parse(given, chat_template);
    return text;
  }
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
  const size_t start = prompt_start_.size();
  if (start > 0 && !std::equal(prompt_start_.begin(), prompt_start_.end(), prompt.ids.begin(),
                               prompt.ids.begin() + static_cast<std::ptrdiff_t>(
                                                        std::min(start, prompt.ids.size())))) {
    prompt.ids.insert(prompt.ids.begin(), prompt_start_.begin(), prompt_start_.end());
  }
  prompt.opens_thought = prompt_opens_thought(text);
  return prompt;
}

void TextFolder::begin_raw_prompts_with(const std::vector<int64_t>& ids) {
  prompt_start_.assign(ids.begin(), ids.end());
}

const ChatTemplate& TextFolder::chat_template() const {
  if (!template_) {
    fail_input("{}: there is no chat template (tokenizer_config.json, chat_template.jinja)",
               folder_);
  }
  return *template_;
}

ChatPrompt TextFolder::render_pieces(std::string_view messages_json,
                                     const RenderOptions& options) const {
  const nlohmann::ordered_json messages = parse_ordered_json(messages_json, "messages");
  return render_chat(
      chat_template(), tokenizer_, messages,
      {options.add_generation_prompt, options.continue_final_message, options.tools});
}

Prompt TextFolder::render(std::string_view messages_json, const RenderOptions& options) const {
  const ChatPrompt chat = render_pieces(messages_json, options);
  Prompt prompt;
  prompt.ids = encode_prompt(chat.prompt, tokenizer_);
  prompt.opens_thought = chat.opens_thought;
  prompt.continues_text = chat.continues_text;
  return prompt;
}

GenerationConfig read_generation_config(const std::string& folder) {
  const std::string path = folder + "/generation_config.json";
  const std::string model_path = folder + "/config.json";
  constexpr uint64_t kMostBytes = 1 << 20;
  // The reference fills in what the one lacks from the other, which has the same fields.
  GenerationConfig model;
  // Folders of graphs have no config.json; of a checkpoint's, whoever loads it complains.
  if (path_exists(model_path)) {
    model = parse_generation_config(read_text(model_path, kMostBytes), model_path);
  }
  if (!path_exists(path)) return model;  // a link that leads nowhere is named by read_text()
  GenerationConfig config = parse_generation_config(read_text(path, kMostBytes), path);
  if (config.eos_token_ids.empty()) config.eos_token_ids = model.eos_token_ids;
  if (!config.bos_token_id) config.bos_token_id = model.bos_token_id;
  return config;
}

}  // namespace fathom
