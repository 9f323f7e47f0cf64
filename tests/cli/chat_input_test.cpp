#include "cli/chat_input.h"

#include <gtest/gtest.h>

#include "cli/conversation.h"
#include "cli/json_output.h"
#include "cli/terminal.h"
#include "fathom/error.h"

namespace fathom::cli {
namespace {

TEST(ChatInput, TellsCommandsFromMessages) {
  EXPECT_EQ(parse_chat_line("What is 47+85?").action, ChatAction::message);
  EXPECT_EQ(parse_chat_line("  spaced \t").text, "spaced");
  EXPECT_EQ(parse_chat_line(" \t").action, ChatAction::nothing);
  EXPECT_EQ(parse_chat_line("/help").action, ChatAction::help);
  EXPECT_EQ(parse_chat_line("/quit ").action, ChatAction::quit);
  EXPECT_EQ(parse_chat_line("/think hide").think, ThinkMode::hide);
  EXPECT_EQ(parse_chat_line("/save  a b.json").text, "a b.json");
  EXPECT_EQ(parse_chat_line("/system").text, "");
  const ChatInput escaped = parse_chat_line(" /etc/passwd?");
  EXPECT_EQ(escaped.action, ChatAction::message);
  EXPECT_EQ(escaped.text, "/etc/passwd?");
  for (const char* wrong : {"/dance", "/", "/think", "/think perhaps", "/save", "/reset now"}) {
    EXPECT_THROW(parse_chat_line(wrong), Error) << wrong;
  }
}

TEST(ChatInput, ReadsJsonLines) {
  EXPECT_EQ(parse_chat_json_line(R"({"content":"/help\nme"})").text, "/help\nme");
  EXPECT_EQ(parse_chat_json_line("plain").text, "plain");
  for (const char* wrong : {"{", "{}", R"({"content":1})", R"({"content":""})"}) {
    EXPECT_THROW(parse_chat_json_line(wrong), Error) << wrong;
  }
}

TEST(Conversation, IsAMessagesArray) {
  Conversation conversation("Be \"brief\".");
  conversation.add_user("a\nb");
  conversation.add_assistant("c");
  EXPECT_EQ(conversation.json(),
            R"([{"role":"system","content":"Be \"brief\"."},{"role":"user","content":"a\nb"},)"
            R"({"role":"assistant","content":"c"}])");
  conversation.drop_user();  // the last turn is an answer
  EXPECT_EQ(conversation.messages(), 2u);
  conversation.drop_assistant();
  EXPECT_TRUE(conversation.ends_with_user());
  conversation.drop_user();
  EXPECT_TRUE(conversation.empty());
  conversation.set_system(std::nullopt);
  EXPECT_EQ(conversation.json(), "[]");
}

TEST(JsonOutput, EscapesAndNeverBreaks) {
  EXPECT_EQ(json_string("a\"\\\n\t\x01\x7f é"), "\"a\\\"\\\\\\n\\t\\u0001\\u007f é\"");
  EXPECT_EQ(json_string("\xff!"), "\"\xef\xbf\xbd!\"");
  EXPECT_EQ(json_number(0.1), "0.1");
  EXPECT_EQ(json_number(1.0 / 0.0), "null");
  const std::vector<int32_t> ids = {1, 2};
  EXPECT_EQ(JsonObject().ids("a", ids).text_or_null("b", std::nullopt).natural("c", 3).str(),
            R"({"a":[1,2],"b":null,"c":3})");
  EXPECT_EQ(json_error(ErrorKind::io, "x"), R"({"error":{"message":"x","kind":"io"}})");
}

TEST(Terminal, ControlCharactersDoNothing) {
  EXPECT_EQ(without_controls("a\n\tb"), "a\n\tb");
  EXPECT_EQ(without_controls("\x1b[2J"), "\xef\xbf\xbd[2J");
  EXPECT_EQ(without_controls("\xc2\x9b"
                             "1m\xc2\xa0"),
            "\xef\xbf\xbd"
            "1m\xc2\xa0");
}

TEST(ChatInput, SessionCommands) {
  EXPECT_EQ(parse_chat_line("/continue").action, ChatAction::resume);
  EXPECT_EQ(parse_chat_line("/session").action, ChatAction::session);
  EXPECT_THROW(parse_chat_line("/continue please"), Error);
}

}  // namespace
}  // namespace fathom::cli
