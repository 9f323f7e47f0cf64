#include "cli/conversation.h"

#include <nlohmann/json.hpp>

#include "base/json.h"
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
  if (!system_) return turns_json();
  const std::string system = JsonObject().text("role", "system").text("content", *system_).str();
  const std::string turns = turns_json();
  return "[" + system + (turns_.empty() ? "" : ",") + turns.substr(1);
}

std::string Conversation::turns_json() const {
  std::string text = "[";
  for (const Turn& turn : turns_) {
    if (text.size() > 1) text += ",";
    text += JsonObject().text("role", turn.role).text("content", turn.content).str();
  }
  return text + "]";
}

void Conversation::set_turns(const std::string& json) {
  turns_.clear();
  for (const auto& turn : parse_json(json, "messages")) {
    turns_.push_back({turn.at("role").get<std::string>(), turn.at("content").get<std::string>()});
  }
}

std::string Conversation::last_message() const {
  for (auto turn = turns_.rbegin(); turn != turns_.rend(); ++turn) {
    if (turn->role == "user") return turn->content;
  }
  return "";
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
