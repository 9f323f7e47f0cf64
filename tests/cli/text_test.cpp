// The commands that read and write text, with a random model: its answers are noise, their shape is
// not.
#include <algorithm>
#include <sstream>

#include "tests/cli/program.h"
#include "tests/paths.h"

namespace fathom {
namespace {

using nlohmann::json;

std::string random_model() { return test_paths::models() + "/random"; }

TEST(CliTokenize, GoesThereAndBack) {
  const std::string text = "Hällo, 世界\n<｜User｜>\n";
  const Finished ids = run({"tokenize", "--model", random_model()}, text);
  ASSERT_EQ(ids.code, 0) << ids.err;
  EXPECT_EQ(std::count(ids.out.begin(), ids.out.end(), '\n'), 1);
  EXPECT_EQ(run({"detokenize", "--model", random_model()}, ids.out).out, text);
  std::string list = ids.out;
  list.pop_back();
  EXPECT_EQ(run({"detokenize", "--model", random_model(), "--tokens", list}).out, text);
}

TEST(CliTokenize, ControlTokensAreASwitch) {
  const std::vector<std::string> command = {"tokenize", "--model", random_model(),
                                            "--json",   "--text",  "<｜User｜>"};
  EXPECT_EQ(run(command).json().size(), 1u);
  std::vector<std::string> as_text = command;
  as_text.push_back("--no-special");
  EXPECT_EQ(run(as_text).json().size(), std::string("<｜User｜>").size());
  std::vector<std::string> with_bos = command;
  with_bos.push_back("--bos");
  EXPECT_EQ(run(with_bos).json().size(), 2u);
}

TEST(CliTokenize, EmptyText) {
  EXPECT_EQ(run({"tokenize", "--model", random_model(), "--text", ""}).out, "\n");
  EXPECT_EQ(run({"tokenize", "--model", random_model(), "--json"}, "").out, "[]\n");
  EXPECT_EQ(run({"detokenize", "--model", random_model(), "--tokens", ""}).out, "");
}

TEST(CliTokenize, JsonLines) {
  const Finished ids =
      run({"tokenize", "--model", random_model(), "--jsonl"}, "\"ab\\n\"\n\"\"\n\"é\"");
  ASSERT_EQ(ids.code, 0) << ids.err;
  EXPECT_EQ(ids.out, "[97,98,10]\n[]\n[195,169]\n");
  const Finished text = run({"detokenize", "--model", random_model(), "--jsonl"}, ids.out);
  EXPECT_EQ(text.out, "\"ab\\n\"\n\"\"\n\"é\"\n");
}

TEST(CliTokenize, ABadLineIsNamed) {
  for (const char* bad : {"[1]", "nonsense", "\"open", "", "\"\xff\""}) {
    const Finished finished = run({"tokenize", "--model", random_model(), "--jsonl"},
                                  "\"good\"\n" + std::string(bad) + "\n\"good\"\n");
    EXPECT_EQ(finished.code, 1) << bad;
    EXPECT_NE(finished.err.find("line 2"), std::string::npos) << finished.err;
    EXPECT_EQ(std::count(finished.out.begin(), finished.out.end(), '\n'), 1) << finished.out;
  }
  for (const char* bad : {"\"a\"", "[1.5]", "[-1]", "[4294967296]", "{}"}) {
    const Finished finished =
        run({"detokenize", "--model", random_model(), "--jsonl"}, "[97]\n" + std::string(bad));
    EXPECT_EQ(finished.code, 1) << bad;
    EXPECT_NE(finished.err.find("line 2"), std::string::npos) << finished.err;
  }
}

TEST(CliTokenize, InvalidUtf8IsAnError) {
  const Finished finished = run({"tokenize", "--model", random_model()}, "ab\xff");
  EXPECT_EQ(finished.code, 1);
  EXPECT_NE(finished.err.find("UTF-8"), std::string::npos) << finished.err;
  EXPECT_EQ(finished.out, "");
}

TEST(CliTokenize, SpecialTokensCanBeLeftOut) {
  const std::string bos = run({"tokenize", "--model", random_model(), "--bos", "--text", "a"}).out;
  EXPECT_EQ(run({"detokenize", "--model", random_model(), "--skip-special"}, bos).out, "a");
  EXPECT_NE(run({"detokenize", "--model", random_model()}, bos).out, "a");
}

TEST(CliRender, TextAndIds) {
  const std::string messages = R"([{"role":"user","content":"Hi </think> é"}])";
  const Finished both = run({"render", "--model", random_model(), "-"}, messages);
  ASSERT_EQ(both.code, 0) << both.err;
  const Finished as_json =
      run({"render", "--model", random_model(), "-", "--json"}, "{\"messages\":" + messages + "}");
  const json result = as_json.json();
  const std::string text = result["text"];
  EXPECT_NE(text.find("Hi </think> é"), std::string::npos);
  EXPECT_TRUE(text.ends_with("<think>\n")) << text;
  EXPECT_TRUE(result["opens_thought"].get<bool>());
  std::string ids;
  for (const json& id : result["ids"]) ids += (ids.empty() ? "" : " ") + id.dump();
  EXPECT_EQ(both.out, text + ids + "\n");
  EXPECT_EQ(run({"render", "--model", random_model(), "-", "--ids"}, messages).out, ids + "\n");
  EXPECT_EQ(run({"render", "--model", random_model(), "-", "--text"}, messages).out, text);
  const json open =
      run({"render", "--model", random_model(), "-", "--json", "--no-generation-prompt"}, messages)
          .json();
  EXPECT_FALSE(open["opens_thought"].get<bool>());
  EXPECT_LT(open["ids"].size(), result["ids"].size());
}

TEST(CliRender, BadMessagesAreNamed) {
  for (const char* bad : {"{}", "[{\"role\":\"user\"}]", "[", "[{\"role\":\"user\",\"content\":3}]",
                          "{\"messages\":3}", "3"}) {
    const Finished finished = run({"render", "--model", random_model(), "-", "--json"}, bad);
    EXPECT_EQ(finished.code, 1) << bad;
    EXPECT_EQ(finished.json()["error"]["kind"], "input") << bad;
  }
  const Finished missing = run({"render", "--model", random_model(), "/no/such/file"});
  EXPECT_EQ(missing.code, 1);
  EXPECT_NE(missing.err.find("/no/such/file"), std::string::npos);
}

TEST(CliGenerateText, StreamedWholeAndJsonAreTheSame) {
  const TextModel model;
  const std::vector<std::string> command = {"generate", "--model",     model.path(), "--prompt",
                                            "47+85=",   "-n",          "40",         "--seed",
                                            "5",        "--ignore-eos"};
  const Finished plain = run(command);
  ASSERT_EQ(plain.code, 0) << plain.err;
  std::vector<std::string> with_json = command;
  with_json.push_back("--json");
  const json result = run(with_json).json();
  EXPECT_EQ(result["token_ids"].size(), 40u);
  const std::string text = result["text"];
  EXPECT_EQ(plain.out, text.ends_with('\n') ? text : text + "\n");
  EXPECT_EQ(result["content"], text);
  EXPECT_EQ(result["reasoning"], "");
  EXPECT_NE(plain.err.find("--seed 5"), std::string::npos);
}

TEST(CliGenerateText, AChatSplitsThoughtAndAnswer) {
  const TextModel model;
  // The bias closes the thought at once, and nothing else is ever likelier than "a".
  const json close =
      run({"tokenize", "--model", model.path(), "--text", "</think>", "--json"}).json();
  ASSERT_EQ(close.size(), 1u);
  const std::vector<std::string> command = {"generate",
                                            "--model",
                                            model.path(),
                                            "--chat",
                                            "Hi",
                                            "--system",
                                            "Be brief.",
                                            "--temp",
                                            "0",
                                            "-n",
                                            "5",
                                            "--logit-bias",
                                            close[0].dump() + "=100",
                                            "--frequency-penalty",
                                            "2"};
  std::vector<std::string> with_json = command;
  with_json.push_back("--json");
  const Finished finished = run(with_json);
  ASSERT_EQ(finished.code, 0) << finished.err;
  const json result = finished.json();
  EXPECT_EQ(result["token_ids"][0], close[0]);
  EXPECT_EQ(result["reasoning"], "");
  // What follows the first close is plain text.
  EXPECT_EQ(result["content"], "</think></think></think></think>");
  EXPECT_EQ(result["usage"]["completion_tokens_details"]["reasoning_tokens"], 1);
  EXPECT_EQ(run(command).out, "</think></think></think></think>\n");
}

TEST(CliGenerateText, StopStringsAreNotShown) {
  const TextModel model;
  const json result = run({"generate", "--model", model.path(), "--prompt", "x", "--temp", "0",
                           "-n", "9", "--logit-bias", "97=100", "--stop", "aaaa", "--json"})
                          .json();
  EXPECT_EQ(result["finish_reason"], "stop");
  EXPECT_EQ(result["text"], "");
  EXPECT_EQ(result["token_ids"].size(), 4u);
  EXPECT_EQ(result["content"], "");
}

TEST(CliGenerateText, PromptFilesAreTakenAsTheyAre) {
  const TextModel model;
  const auto prompt_tokens = [&](const std::vector<std::string>& prompt, const std::string& input) {
    std::vector<std::string> command = {"generate", "--model", model.path(), "-n", "1", "--json"};
    command.insert(command.end(), prompt.begin(), prompt.end());
    const Finished finished = run(command, input);
    EXPECT_EQ(finished.code, 0) << finished.err;
    return finished.json()["usage"]["prompt_tokens"].get<int>();
  };
  EXPECT_EQ(prompt_tokens({"--prompt-file", "-"}, "ab\n"), 4);  // with the beginning of sequence
  EXPECT_EQ(prompt_tokens({"--prompt", "ab"}, ""), 3);
  const Finished empty =
      run({"generate", "--model", model.path(), "--prompt-file", "-", "--json"}, "");
  EXPECT_EQ(empty.code, 2);
  EXPECT_EQ(empty.json()["error"]["kind"], "usage");
}

TEST(CliPerplexity, ReadsAFile) {
  const TextModel model;
  const Finished finished =
      run({"perplexity", "--model", model.path(), "--file", "-", "--ctx", "8", "--json"},
          "Thirty bytes of text are here.");
  ASSERT_EQ(finished.code, 0) << finished.err;
  EXPECT_EQ(finished.json()["tokens"], 31);
  EXPECT_EQ(finished.json()["windows"], 4);
  EXPECT_EQ(finished.json()["predicted"], 31 - 4);
  EXPECT_GT(finished.json()["perplexity"], 1.0);
}

TEST(CliChat, AnswersEveryLineOfAPipe) {
  const TextModel model;
  const Finished finished =
      run({"chat", "--model", model.path(), "-n", "6", "--seed", "1", "--ignore-eos", "--json"},
          "Hello\n\n{\"content\":\"And\\nnow?\"}\n/reset\nHello\n");
  ASSERT_EQ(finished.code, 0) << finished.err;
  std::vector<json> answers;
  std::istringstream lines(finished.out);
  for (std::string line; std::getline(lines, line);) answers.push_back(json::parse(line));
  ASSERT_EQ(answers.size(), 3u);
  for (const json& answer : answers) {
    EXPECT_EQ(answer["finish_reason"], "length");
    EXPECT_EQ(answer["usage"]["completion_tokens"], 6);
    EXPECT_TRUE(answer["content"].is_string() && answer["reasoning"].is_string());
  }
  // A new conversation with the same seed.
  EXPECT_EQ(answers[0]["reasoning"], answers[2]["reasoning"]);
  EXPECT_EQ(answers[0]["content"], answers[2]["content"]);
}

TEST(CliChat, LaterTurnsUseTheCache) {
  const TextModel model;
  const json token =
      run({"tokenize", "--model", model.path(), "--text", "</think>", "--json"}).json();
  const Finished finished = run({"chat", "--model", model.path(), "-n", "3", "--temp", "0",
                                 "--logit-bias", token[0].dump() + "=100", "--json"},
                                "First\nSecond\n");
  ASSERT_EQ(finished.code, 0) << finished.err;
  const size_t newline = finished.out.find('\n');
  const json second = json::parse(finished.out.substr(newline + 1));
  EXPECT_GT(second["usage"]["cached_tokens"], 5);
}

TEST(CliChat, ThoughtsAreShownHiddenOrClosed) {
  const TextModel model;
  const auto ask = [&](const std::string& think) {
    const Finished finished = run({"chat", "--model", model.path(), "--think", think, "--temp", "0",
                                   "-n", "4", "--logit-bias", "97=100"},
                                  "Hello\n");
    EXPECT_EQ(finished.code, 0) << finished.err;
    return finished.out;
  };
  EXPECT_EQ(ask("on"), "aaaa\n");  // never closed: all of it is thought
  EXPECT_EQ(ask("hide"), "");
  EXPECT_EQ(ask("off"), "aaaa\n");  // all of it is the answer
}

TEST(CliChat, AMessageThatIsTooLongIsRefusedAndForgotten) {
  const TextModel model;
  const Finished finished =
      run({"chat", "--model", model.path(), "--ctx", "40", "-n", "2", "--json"},
          std::string(100, 'x') + "\nshort\n");
  EXPECT_EQ(finished.code, 1);
  const size_t newline = finished.out.find('\n');
  const json error = json::parse(finished.out.substr(0, newline));
  EXPECT_NE(error["error"]["message"].get<std::string>().find("/reset"), std::string::npos);
  EXPECT_TRUE(json::parse(finished.out.substr(newline + 1)).contains("content"));
}

TEST(CliChat, CommandsWorkInAPipe) {
  const TextModel model;
  const TemporaryFolder folder;
  const Finished finished =
      run({"chat", "--model", model.path(), "-n", "2", "--temp", "0", "--think", "off",
           "--logit-bias", "97=100", "--quiet"},
          "One \\\nmessage\n/save " + (folder / "chat.json") + "\n/stats\n/quit\nnot read\n");
  ASSERT_EQ(finished.code, 0) << finished.err;
  EXPECT_EQ(finished.out, "aa\n");
  const json saved = json::parse(file_text(folder / "chat.json"));
  EXPECT_EQ(saved, json::parse(R"([{"role":"user","content":"One \nmessage"},
                                   {"role":"assistant","content":"aa"}])"));
  EXPECT_NE(finished.err.find("answers: 1; messages in the conversation: 2\n2 tokens generated"),
            std::string::npos)
      << finished.err;
}

TEST(CliChat, AFileThatCannotBeSavedDoesNotEndTheChat) {
  const TextModel model;
  const Finished finished = run({"chat", "--model", model.path(), "-n", "2", "--temp", "0",
                                 "--think", "off", "--logit-bias", "97=100", "--quiet"},
                                "One\n/save /no/such/folder/chat.json\nTwo\n");
  EXPECT_EQ(finished.code, 1);  // something failed, and a program should know
  EXPECT_EQ(finished.out, "aa\naa\n");
  EXPECT_NE(finished.err.find("/no/such/folder/chat.json"), std::string::npos) << finished.err;
}

}  // namespace
}  // namespace fathom
