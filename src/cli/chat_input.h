// What a line typed in a chat means.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "cli/options.h"

namespace fathom::cli {

enum class ChatAction {
  message,
  help,
  reset,
  think,
  system,
  again,
  resume,
  stats,
  session,
  save,
  quit,
  nothing
};

struct ChatInput {
  ChatAction action = ChatAction::nothing;
  std::string text;  // the message, or what follows the command
  ThinkMode think = ThinkMode::on;
};

// A line that begins with "/" is a command; one space before it makes it a message. Error(usage)
// where there is no such command or its argument is wrong.
ChatInput parse_chat_line(const std::string& line);
// The same for programs: a line that begins with "{" is {"content": TEXT}. Error(input) where it is
// some other JSON.
ChatInput parse_chat_json_line(const std::string& line);

extern const char* const kChatHelp;

}  // namespace fathom::cli
