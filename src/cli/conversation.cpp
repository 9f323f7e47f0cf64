#include "cli/conversation.h"

#include "cli/json_output.h"

namespace fathom::cli {

void Conversation::set_system(std::optional<std::string> system) {
  system_ = std::move(system);
  reset();
}

void Conversation::drop_assistant() {
  if (!turns_.empty() && turns_.back().role == "assistant") turns_.pop_back();
}

void Conversation::drop_user() {
  if (ends_with_user()) turns_.pop_back();
}

std::string Conversation::json() const {
  std::string text = "[";
  const auto add = [&text](const std::string& role, const std::string& content) {
    if (text.size() > 1) text += ",";
    text += JsonObject().text("role", role).text("content", content).str();
  };
  if (system_) add("system", *system_);
  for (const Turn& turn : turns_) add(turn.role, turn.content);
  return text + "]";
}

Prompt Conversation::prompt(const Model& model, bool think) const {
  Prompt prompt = model.render(json());
  if (think) return prompt;
  // As a thought without words would read: "<think>\n", then "\n</think>\n\n".
  const std::string empty_thought =
      prompt.opens_thought ? "\n</think>\n\n" : "<think>\n\n</think>\n\n";
  const std::vector<int32_t> ids = model.tokenize(empty_thought);
  prompt.ids.insert(prompt.ids.end(), ids.begin(), ids.end());
  prompt.opens_thought = false;
  return prompt;
}

}  // namespace fathom::cli
