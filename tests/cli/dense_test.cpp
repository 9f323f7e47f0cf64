// Qwen2, Llama and Qwen3 folders with every command that takes a model.
#include <sstream>

#include "tests/checkpoint/configs.h"
#include "tests/cli/program.h"
#include "tests/paths.h"

namespace fathom {
namespace {

using nlohmann::json;

// Of every class one, with the random model's vocabulary.
json small_config_of(const std::string& architecture) {
  const json random = json::parse(file_text(test_paths::models() + "/random/config.json"));
  json config = llama_config();
  config.update(json::parse(R"({"hidden_size": 48, "intermediate_size": 80, "num_hidden_layers": 2,
                               "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16,
                               "max_position_embeddings": 2048})"));
  for (const char* field : {"vocab_size", "bos_token_id", "eos_token_id"}) {
    config[field] = random[field];
  }
  config["architectures"] = {architecture};
  config["tie_word_embeddings"] = architecture == "Qwen2ForCausalLM";
  return config;
}

class DenseCommands : public testing::TestWithParam<const char*> {
 protected:
  static std::string config_file(const TemporaryFolder& folder) {
    std::ofstream(folder / "config.json") << small_config_of(GetParam());
    return folder / "config.json";
  }
  // Runs a command with the model, and expects it to succeed.
  Finished told(std::vector<std::string> words, const std::string& input = "") const {
    words.insert(words.begin() + 1, {"--model", model_.path()});
    Finished finished = run(words, input);
    EXPECT_EQ(finished.code, 0) << finished.err;
    return finished;
  }

  TemporaryFolder folder_;
  TextModel model_{config_file(folder_)};
};

TEST_P(DenseCommands, InspectVerifyAndPlan) {
  const json inspection = run({"inspect", model_.path(), "--json"}).json();
  EXPECT_EQ(inspection["identity"]["architecture"], GetParam());
  EXPECT_EQ(inspection["identity"]["runs_here"], true);
  EXPECT_TRUE(inspection["problems"].empty()) << inspection["problems"];
  const Finished verified = run({"verify", model_.path(), "--values"});
  EXPECT_EQ(verified.code, 0) << verified.out;
  const Finished plan = run({"plan", model_.path(), "--ram", "1G", "--disk-bandwidth", "1G",
                             "--memory-bandwidth", "10G", "--flops", "100G"});
  EXPECT_EQ(plan.code, 0) << plan.err;
  EXPECT_EQ(plan.out.find("expert"), std::string::npos) << plan.out;
}

TEST_P(DenseCommands, GenerateStreamsAndTellsTheSame) {
  const std::vector<std::string> words = {"generate", "--prompt", "Hello", "-n",
                                          "20",       "--seed",   "5",     "--ignore-eos"};
  std::vector<std::string> as_json = words;
  as_json.push_back("--json");
  const json result = told(as_json).json();
  EXPECT_EQ(result["token_ids"].size(), 20u);
  std::string text = result["text"];
  if (!text.ends_with('\n')) text += '\n';
  EXPECT_EQ(told(words).out, text);
  // Nothing is on disk, and nothing is drafted.
  EXPECT_EQ(result["speculation"]["on"], false);
}

TEST_P(DenseCommands, LogitsAndPerplexity) {
  const json logits =
      told({"logits", "--text", "Hello", "--out", folder_ / "logits.npy", "--hidden",
            folder_ / "hidden.npy", "--attentions", folder_ / "attentions.npy", "--json"})
          .json();
  EXPECT_EQ(logits["vocab"], 272);
  const json refused = run({"logits", "--model", model_.path(), "--tokens", "1,2", "--out",
                            folder_ / "mtp.npy", "--mtp", "--json"})
                           .json();
  EXPECT_NE(refused["error"]["message"].get<std::string>().find("no MTP layer"), std::string::npos);
  std::ofstream(folder_ / "text") << "Some text to be measured.";
  EXPECT_GT(told({"perplexity", "--file", folder_ / "text", "--json"}).json()["perplexity"], 1.0);
}

TEST_P(DenseCommands, ABatchAnswersAsAlone) {
  std::ofstream requests(folder_ / "requests.jsonl");
  for (int i = 0; i < 3; ++i) {
    requests << json{{"custom_id", std::to_string(i)},
                     {"method", "POST"},
                     {"url", "/v1/completions"},
                     {"body",
                      {{"prompt", "Text " + std::string(static_cast<size_t>(i) * 40, 'x')},
                       {"max_tokens", 8},
                       {"temperature", 0},
                       {"ignore_eos", true}}}}
             << "\n";
  }
  requests.close();
  told({"batch", folder_ / "requests.jsonl", "--out", folder_ / "answers.jsonl"});
  std::istringstream answers(file_text(folder_ / "answers.jsonl"));
  int seen = 0;
  for (std::string line; std::getline(answers, line); ++seen) {
    const json answer = json::parse(line);
    const int i = std::stoi(answer["custom_id"].get<std::string>());
    ASSERT_EQ(answer["response"]["status_code"], 200) << answer;
    const json alone =
        told({"generate", "--prompt", "Text " + std::string(static_cast<size_t>(i) * 40, 'x'), "-n",
              "8", "--temp", "0", "--ignore-eos", "--json"})
            .json();
    EXPECT_EQ(answer["response"]["body"]["choices"][0]["text"], alone["text"]);
  }
  EXPECT_EQ(seen, 3);
}

TEST_P(DenseCommands, AChatGoesOnFromItsSession) {
  const std::vector<std::string> words = {"chat", "-n",           "6",     "--temp",
                                          "0",    "--ignore-eos", "--json"};
  const std::string whole = told(words, "One\nTwo\n").out;
  std::vector<std::string> kept = words;
  kept.insert(kept.end(), {"--session", folder_ / "chat.session"});
  std::string parts = told(kept, "One\n").out;
  parts += told(kept, "Two\n").out;
  const auto contents = [](const std::string& lines) {
    std::vector<json> found;
    std::istringstream in(lines);
    for (std::string line; std::getline(in, line);) {
      const json answer = json::parse(line);
      found.push_back({answer["reasoning"], answer["content"]});
    }
    return found;
  };
  EXPECT_EQ(contents(parts), contents(whole));
  EXPECT_EQ(contents(whole).size(), 2u);
}

INSTANTIATE_TEST_SUITE_P(Classes, DenseCommands,
                         testing::Values("Qwen2ForCausalLM", "LlamaForCausalLM",
                                         "Qwen3ForCausalLM"),
                         [](const auto& info) { return std::string(info.param); });

TEST(DenseModel, WhatDoesNotFitIsRefusedWithTheTable) {
  const Finished finished =
      run({"generate", "--model", golden("llama3-tiny"), "--tokens", "1,2", "--ram", "70M"});
  EXPECT_EQ(finished.code, 1);
  for (const char* part : {"KV cache", "dense MLP", "what helps: a smaller --ctx (", "--kv int8"}) {
    EXPECT_NE(finished.err.find(part), std::string::npos) << finished.err;
  }
}

}  // namespace
}  // namespace fathom
