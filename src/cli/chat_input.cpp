#include "cli/chat_input.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"

namespace fathom::cli {
namespace {

std::string trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const size_t first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return "";
  return std::string(text.substr(first, text.find_last_not_of(kSpace) - first + 1));
}

struct CommandName {
  std::string_view name;
  ChatAction action;
  bool takes_text;
};
constexpr CommandName kCommands[] = {
    {"help", ChatAction::help, false},       {"reset", ChatAction::reset, false},
    {"think", ChatAction::think, true},      {"system", ChatAction::system, true},
    {"again", ChatAction::again, false},     {"stats", ChatAction::stats, false},
    {"save", ChatAction::save, true},        {"quit", ChatAction::quit, false},
    {"continue", ChatAction::resume, false}, {"session", ChatAction::session, false},
    {"exit", ChatAction::quit, false},
};

ChatInput parse_command(std::string_view text) {
  const size_t space = text.find_first_of(" \t");
  const std::string_view name = text.substr(0, space);
  const std::string rest = space == std::string_view::npos ? "" : trimmed(text.substr(space));
  for (const CommandName& command : kCommands) {
    if (command.name != name) continue;
    if (!rest.empty() && !command.takes_text) fail_usage("/{} takes no argument", name);
    ChatInput input{command.action, rest, ThinkMode::on};
    if (command.action == ChatAction::save && rest.empty()) fail_usage("/save: name a file");
    if (command.action == ChatAction::think) {
      if (rest == "on") {
        input.think = ThinkMode::on;
      } else if (rest == "off") {
        input.think = ThinkMode::off;
      } else if (rest == "hide") {
        input.think = ThinkMode::hide;
      } else {
        fail_usage("/think: say on, off or hide");
      }
    }
    return input;
  }
  fail_usage("there is no command /{}; /help lists them, and a space before the / makes a message",
             name);
}

}  // namespace

const char* const kChatHelp =
    "/help            this list\n"
    "/reset           forget the conversation\n"
    "/think on        show the thought (dimmed on a terminal)\n"
    "/think hide      make the thought, but do not show it\n"
    "/think off       close the thought at once, and answer\n"
    "/system TEXT     another system message, and a new conversation; without TEXT none\n"
    "/again           another answer to the last message\n"
    "/continue        go on with an answer that was stopped\n"
    "/stats           tokens and speed so far\n"
    "/session         what is saved, and where\n"
    "/save FILE       write the conversation as a JSON array of messages\n"
    "/quit            end (also Ctrl-D)\n"
    "A line that ends with a backslash goes on in the next one. Ctrl-C stops an answer.\n";

ChatInput parse_chat_line(const std::string& line) {
  if (line.starts_with('/')) return parse_command(trimmed(std::string_view(line).substr(1)));
  ChatInput input;
  input.text = trimmed(line);
  input.action = input.text.empty() ? ChatAction::nothing : ChatAction::message;
  return input;
}

ChatInput parse_chat_json_line(const std::string& line) {
  if (!line.starts_with('{')) return parse_chat_line(line);
  const nlohmann::json json = parse_json(line, "message");
  if (!json.contains("content") || !json["content"].is_string()) {
    fail_input("message: there is no string \"content\"");
  }
  ChatInput input;
  input.text = json["content"].get<std::string>();
  if (input.text.empty()) fail_input("message: content is empty");
  input.action = ChatAction::message;
  return input;
}

}  // namespace fathom::cli
