// fathom batch: OpenAI batch lines in and out, resumable at any moment.
#include <map>

#include "tests/cli/program.h"

namespace fathom {
namespace {

using nlohmann::json;

std::string demo() { return golden("../../models/demo"); }

std::string line(const std::string& custom_id, const json& body,
                 const std::string& url = "/v1/chat/completions") {
  return json{{"custom_id", custom_id}, {"method", "POST"}, {"url", url}, {"body", body}}.dump() +
         "\n";
}

json ask(const std::string& text, int max_tokens = 24) {
  return {{"messages", {{{"role", "user"}, {"content", text}}}}, {"max_tokens", max_tokens}};
}

void write(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

std::vector<json> lines_of(const std::string& path) {
  std::vector<json> lines;
  std::ifstream in(path);
  for (std::string text; std::getline(in, text);) lines.push_back(json::parse(text));
  return lines;
}

// Answers by id, without what depends on the clock.
std::map<std::string, json> answers(const std::string& path) {
  std::map<std::string, json> by_id;
  for (json& answer : lines_of(path)) {
    if (answer["response"]["body"].contains("created")) {
      answer["response"]["body"].erase("created");
    }
    const std::string id = answer["id"];
    EXPECT_FALSE(by_id.contains(id)) << "answered twice: " << answer;
    by_id[id] = answer;
  }
  return by_id;
}

std::vector<std::string> batch(const TemporaryFolder& folder, const std::string& out,
                               const std::vector<std::string>& more = {}) {
  std::vector<std::string> words = {"batch",     folder / "requests.jsonl",
                                    "--out",     folder / out,
                                    "--model",   demo(),
                                    "--threads", "1",
                                    "--json"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

TEST(Batch, AnswersWhatIsAskedAndSaysWhatIsWrong) {
  TemporaryFolder folder;
  json sampled = ask("What is 12+7?");
  sampled["n"] = 2;
  sampled["user"] = "somebody";
  json tools = ask("Hi");
  tools["tools"] = {{{"type", "function"}}};
  json unknown = ask("Hi");
  unknown["magic"] = 1;
  json wrong = ask("Hi");
  wrong["temperature"] = "warm";
  json hot = ask("Hi");
  hot["temperature"] = 9;
  write(folder / "requests.jsonl",
        line("chat", ask("What is 47+85?", 60)) + line("two", sampled) + "not json\n\n" +
            line("text", {{"prompt", "Hello"}, {"max_tokens", 5}, {"temperature", 0}},
                 "/v1/completions") +
            line("tools", tools) + line("unknown", unknown) + line("wrong", wrong) +
            line("hot", hot) + line("chat", ask("again")) +
            line("elsewhere", ask("Hi"), "/v1/embeddings"));
  const Finished run_ = run(batch(folder, "answers.jsonl"));
  ASSERT_EQ(run_.code, 0) << run_.err;
  const json summary = run_.json();
  EXPECT_EQ(summary["requests"], 10);
  EXPECT_EQ(summary["answered"], 3);
  EXPECT_EQ(summary["refused"], 7);
  EXPECT_EQ(summary["left"], 0);

  std::map<std::string, json> by_custom_id;
  std::vector<json> refused;
  for (const json& answer : lines_of(folder / "answers.jsonl")) {
    if (answer["response"]["status_code"] == 200) {
      by_custom_id[answer["custom_id"]] = answer;
    } else {
      refused.push_back(answer);
    }
  }
  ASSERT_EQ(by_custom_id.size(), 3u);
  const json& chat = by_custom_id["chat"]["response"]["body"];
  EXPECT_TRUE(by_custom_id["chat"]["error"].is_null());
  EXPECT_EQ(chat["object"], "chat.completion");
  EXPECT_EQ(chat["choices"][0]["message"]["role"], "assistant");
  EXPECT_FALSE(chat["choices"][0]["message"]["reasoning_content"].get<std::string>().empty());
  EXPECT_GT(chat["usage"]["completion_tokens_details"]["reasoning_tokens"], 0);
  EXPECT_EQ(
      chat["usage"]["total_tokens"].get<int>(),
      chat["usage"]["prompt_tokens"].get<int>() + chat["usage"]["completion_tokens"].get<int>());
  EXPECT_EQ(by_custom_id["two"]["response"]["body"]["choices"].size(), 2u);
  const json& text = by_custom_id["text"]["response"]["body"];
  EXPECT_EQ(text["object"], "text_completion");
  EXPECT_EQ(text["usage"]["completion_tokens"], 5);
  EXPECT_EQ(text["choices"][0]["finish_reason"], "length");

  ASSERT_EQ(refused.size(), 7u);
  std::map<std::string, std::string> messages;
  for (const json& answer : refused) {
    EXPECT_EQ(answer["response"]["status_code"], 400);
    EXPECT_EQ(answer["response"]["body"]["error"]["message"], answer["error"]["message"]);
    const json& id = answer["custom_id"];
    messages[id.is_null() ? "" : id.get<std::string>()] = answer["error"]["message"];
  }
  EXPECT_NE(messages[""].find("line 3"), std::string::npos) << messages[""];
  for (const auto& [id, field] : std::map<std::string, std::string>{{"tools", "tools"},
                                                                    {"unknown", "magic"},
                                                                    {"wrong", "temperature"},
                                                                    {"hot", "temperature"},
                                                                    {"elsewhere", "url"},
                                                                    {"chat", "custom_id"}}) {
    EXPECT_EQ(messages[id].substr(0, field.size()), field) << messages[id];
  }

  // Once more: nothing is left to do.
  const std::string before = file_text(folder / "answers.jsonl");
  const Finished again = run(batch(folder, "answers.jsonl"));
  ASSERT_EQ(again.code, 0) << again.err;
  EXPECT_EQ(again.json()["answered_before"], 10);
  EXPECT_EQ(file_text(folder / "answers.jsonl"), before);
}

class BatchResume : public testing::Test {
 protected:
  BatchResume() {
    std::string requests;
    for (int i = 0; i < 24; ++i) {
      requests += line("q" + std::to_string(i),
                       ask("What is " + std::to_string(i) + "+" + std::to_string(3 * i) + "?", 40));
    }
    write(folder_ / "requests.jsonl", requests + "broken\n");
    const Finished whole = run(batch(folder_, "whole.jsonl", {"--parallel", "3"}));
    EXPECT_EQ(whole.code, 0) << whole.err;
    expected_ = answers(folder_ / "whole.jsonl");
    EXPECT_EQ(expected_.size(), 25u);
  }
  // True when the file has some answers.
  bool wait_for_answers(const std::string& name, size_t count) {
    for (int i = 0; i < 3000; ++i) {
      const std::string text = file_text(folder_ / name);
      if (static_cast<size_t>(std::count(text.begin(), text.end(), '\n')) >= count) return true;
      usleep(10'000);
    }
    return false;
  }

  TemporaryFolder folder_;
  std::map<std::string, json> expected_;
};

TEST_F(BatchResume, AfterKillsGivesWhatAnUninterruptedRunGives) {
  for (const size_t at : {2, 9}) {
    Program killed(batch(folder_, "killed.jsonl", {"--parallel", "2"}), "");
    ASSERT_TRUE(wait_for_answers("killed.jsonl", at));
    killed.signal(SIGKILL);
    killed.wait();
  }
  // As a kill in the middle of a write leaves it.
  const size_t whole_lines = lines_of(folder_ / "killed.jsonl").size();
  if (whole_lines == 25) GTEST_SKIP() << "it was too quick to be killed";
  std::ofstream(folder_ / "killed.jsonl", std::ios::app) << R"({"id":"batch_req_12","custom)";
  const Finished last = run(batch(folder_, "killed.jsonl", {"--parallel", "5"}));
  ASSERT_EQ(last.code, 0) << last.err;
  EXPECT_EQ(last.json()["answered_before"], whole_lines);
  EXPECT_EQ(answers(folder_ / "killed.jsonl"), expected_);
}

TEST_F(BatchResume, CtrlCEndsItCleanly) {
  Program stopped(batch(folder_, "stopped.jsonl", {"--parallel", "2"}), "");
  ASSERT_TRUE(wait_for_answers("stopped.jsonl", 3));
  stopped.signal(SIGINT);
  const Finished finished = stopped.wait();
  EXPECT_EQ(finished.code, 130) << finished.err;
  EXPECT_TRUE(finished.json()["stopped"]);
  const Finished rest = run(batch(folder_, "stopped.jsonl"));
  EXPECT_EQ(rest.code, 0) << rest.err;
  EXPECT_EQ(answers(folder_ / "stopped.jsonl"), expected_);
}

TEST_F(BatchResume, RefusesAnswersToSomethingElse) {
  const std::string requests = file_text(folder_ / "requests.jsonl");
  write(folder_ / "requests.jsonl", line("q1", ask("What is 5+5?")) + requests.substr(0, 300));
  const Finished changed = run(batch(folder_, "whole.jsonl"));
  EXPECT_EQ(changed.code, 1);
  EXPECT_NE(changed.err.find("q1"), std::string::npos) << changed.err;

  write(folder_ / "requests.jsonl", requests);
  const Finished other_seed = run(batch(folder_, "whole.jsonl", {"--seed", "1"}));
  EXPECT_EQ(other_seed.code, 1);
  write(folder_ / "whole.jsonl", "{\"hello\": 1}\n");
  const Finished foreign = run(batch(folder_, "whole.jsonl"));
  EXPECT_EQ(foreign.code, 1);
  EXPECT_NE(foreign.err.find("line 1"), std::string::npos) << foreign.err;
  EXPECT_EQ(file_text(folder_ / "whole.jsonl"), "{\"hello\": 1}\n");
}

// What failed because of the machine is asked again, and its old answer goes.
TEST_F(BatchResume, TriesAgainWhatHadFailed) {
  std::string text;
  for (json& answer : lines_of(folder_ / "whole.jsonl")) {
    if (answer["custom_id"] == "q4") {
      answer["response"] = {{"status_code", 500}, {"body", {{"error", {{"message", "disk"}}}}}};
    }
    text += answer.dump() + "\n";
  }
  write(folder_ / "whole.jsonl", text);
  const Finished again = run(batch(folder_, "whole.jsonl"));
  ASSERT_EQ(again.code, 0) << again.err;
  EXPECT_EQ(again.json()["answered"], 1);
  EXPECT_EQ(answers(folder_ / "whole.jsonl"), expected_);
}

TEST(GenerateSamples, AreWhatSingleRunsWithTheirChoiceGive) {
  const std::vector<std::string> words = {
      "generate", "--model", demo(),      "--chat", "What is 47+85?", "-n", "12",
      "--seed",   "3",       "--threads", "1"};
  const auto with = [&words](const std::vector<std::string>& more) {
    std::vector<std::string> all = words;
    all.insert(all.end(), more.begin(), more.end());
    return run(all);
  };
  const json samples = with({"--samples", "3", "--json"}).json()["samples"];
  ASSERT_EQ(samples.size(), 3u);
  const json one = with({"--json"}).json();
  EXPECT_EQ(samples[0]["token_ids"], one["token_ids"]);
  const json drafted = with({"--json", "--mtp", "on"}).json();
  EXPECT_EQ(drafted["token_ids"], one["token_ids"]);
  EXPECT_GT(drafted["speculation"]["drafts"], 0);

  const Finished shown = with({"--samples", "3", "--quiet"});
  EXPECT_EQ(shown.code, 0) << shown.err;
  size_t at = 0;
  for (int i = 1; i <= 3; ++i) {
    const std::string heading = "[sample " + std::to_string(i) + " of 3]\n";
    const size_t found = shown.out.find(heading, at);
    ASSERT_NE(found, std::string::npos) << shown.out;
    at = found + heading.size();
    const std::string thought = samples[i - 1]["reasoning"];
    EXPECT_EQ(shown.out.substr(at, thought.size()), thought);
  }
}

}  // namespace
}  // namespace fathom
