// A conversation to a prompt: what lies around the template. Tools are described where the template
// does not do it, and an assistant's last message may be left open.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "text/chat_template.h"

namespace fathom {

struct ChatPromptOptions {
  bool add_generation_prompt = true;
  bool continue_final_message = false;
  std::string_view tools = {};  // OpenAI's array as JSON; "": none
};

struct ChatPrompt {
  RenderedPrompt prompt;
  bool opens_thought = false;   // the output begins in the thought
  bool continues_text = false;  // and goes on with words that the prompt has begun
};

// `messages` as they came; see normalise_messages(). Errors name the field.
ChatPrompt render_chat(const ChatTemplate& chat_template, const Tokenizer& tokenizer,
                       const nlohmann::ordered_json& messages, const ChatPromptOptions& options);

// Checks OpenAI's array of tools: Error(input) that begins with the field's path.
nlohmann::ordered_json parse_tools(std::string_view json);

// How tools are described to a template that does not read them: the text that is put before the
// first user message's own. The markers in it are control tokens, the descriptions are text.
std::vector<PromptPiece> describe_tools(const nlohmann::ordered_json& tools);

}  // namespace fathom
