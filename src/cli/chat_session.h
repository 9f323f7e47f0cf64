// A chat that outlives the program: what its file says beside the cache (fathom/session.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/options.h"
#include "fathom/session.h"

namespace fathom::cli {

// An answer that has begun and not ended: the model is on it, it was stopped, or the program was.
struct OpenAnswer {
  Prompt prompt;
  std::vector<int32_t> ids;  // generated so far
  std::string content;       // their share of the answer
  AskOptions ask;            // what it was begun with
  uint64_t choice = 0;
  bool stopped = false;  // by the user: it goes on only when asked to
};

struct ChatState {
  std::optional<std::string> system;
  std::string messages = "[]";  // the conversation without system message, as JSON
  ThinkMode think = ThinkMode::on;
  AskOptions ask;
  uint64_t choice = 0;
  std::optional<OpenAnswer> open;  // its ids are those of the session
};

// The note of a chat's session, and back. Error(input) naming `path` and the field where the note
// is none of a chat.
std::string chat_note(const ChatState& state);
ChatState parse_chat_note(const Session& session);

// What the command line leaves open comes from the session.
void take_over(AskOptions* given, const AskOptions& stored);

}  // namespace fathom::cli
