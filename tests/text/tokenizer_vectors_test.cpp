// The vocabularies of public models, against ids that other implementations agree on.
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/json.h"
#include "tests/paths.h"
#include "text/tokenizer.h"
#include "text/utf8_stream.h"

namespace fathom {
namespace {

using nlohmann::json;
using Ids = std::vector<TokenId>;

const std::string kFolder = test_paths::golden() + "/../../build/vocab";

bool vocabularies_are_there() {
  for (const char* name : {"deepseek_v3", "llama3_1", "qwen3"}) {
    if (!std::filesystem::exists(kFolder + "/" + name + "/tokenizer.json")) return false;
  }
  return true;
}

json added(int id, const std::string& content, bool special) {
  return {{"id", id},        {"content", content}, {"special", special},  {"normalized", false},
          {"lstrip", false}, {"rstrip", false},    {"single_word", false}};
}

// The distilled models keep the base model's vocabulary and put R1's control tokens after it.
json with_control_tokens(json file, const std::vector<std::string>& contents, int first) {
  json tokens = json::array();
  for (const json& token : file["added_tokens"]) {
    const int id = token["id"].get<int>();
    if (id < first) tokens.push_back(token);
  }
  for (size_t i = 0; i < contents.size(); ++i) {
    const bool special = contents[i].find("sentence") != std::string::npos;
    tokens.push_back(added(first + static_cast<int>(i), contents[i], special));
  }
  file["added_tokens"] = tokens;
  return file;
}

Tokenizer make_family(const std::string& family) {
  const auto read = [](const std::string& name) {
    const std::string path = kFolder + "/" + name + "/tokenizer.json";
    return parse_json(read_text(path), path);
  };
  const std::string bos = "<｜begin▁of▁sentence｜>";
  const std::string eos = "<｜end▁of▁sentence｜>";
  if (family == "v3_file") return Tokenizer::load(kFolder + "/deepseek_v3");
  json file;
  if (family == "r1") {
    // R1 gave a name and a meaning to two placeholders of V3.
    file = read("deepseek_v3");
    for (json& token : file["added_tokens"]) {
      if (token["id"] == 128798) token = added(128798, "<think>", false);
      if (token["id"] == 128799) token = added(128799, "</think>", false);
    }
  } else if (family == "distill_qwen") {
    file = with_control_tokens(
        read("qwen3"),
        {eos, "<｜User｜>", "<｜Assistant｜>", bos, "<|EOT|>", "<think>", "</think>"}, 151643);
  } else {
    file = read("llama3_1");
    for (json& token : file["added_tokens"]) {
      const std::map<int, json> renamed = {
          {128000, added(128000, bos, true)},
          {128001, added(128001, eos, true)},
          {128011, added(128011, "<｜User｜>", false)},
          {128012, added(128012, "<｜Assistant｜>", false)},
          {128013, added(128013, "<think>", false)},
          {128014, added(128014, "</think>", false)},
      };
      const auto found = renamed.find(token["id"].get<int>());
      if (found != renamed.end()) token = found->second;
    }
  }
  return Tokenizer::parse(file.dump(), family);
}

const Tokenizer& family_of(const std::string& name) {
  static std::map<std::string, Tokenizer> families;
  const auto found = families.find(name);
  if (found != families.end()) return found->second;
  return families.emplace(name, make_family(name)).first->second;
}

json test_data(const std::string& name) {
  const std::string path = test_paths::golden() + "/" + name;
  return parse_json(read_text(path), path);
}

class PublicVocabularies : public testing::Test {
 protected:
  void SetUp() override {
    if (!vocabularies_are_there()) {
      GTEST_SKIP() << "no vocabularies in " << kFolder << "; tools/fetch-vocabularies fetches them";
    }
  }
};

TEST_F(PublicVocabularies, GiveTheKnownIdsOfAllTexts) {
  const json vectors = test_data("tokenizer-vectors.json");
  ASSERT_EQ(vectors.size(), 240u);
  for (const auto& [family, key] :
       std::vector<std::pair<std::string, std::string>>{{"r1", "deepseek-r1"},
                                                        {"distill_qwen", "qwen-distill"},
                                                        {"distill_llama", "llama-distill"}}) {
    const Tokenizer& tokenizer = family_of(family);
    for (const json& vector : vectors) {
      const auto text = vector["text"].get<std::string>();
      const Ids ids = tokenizer.encode(text, ControlTokens::parse);
      EXPECT_EQ(ids, vector[key].get<Ids>()) << family << ": " << text;
      // Qwen's file composes characters; the others give back every byte.
      if (family == "distill_qwen") continue;
      EXPECT_EQ(tokenizer.decode(ids), text) << family;
    }
  }
}

TEST_F(PublicVocabularies, GiveTheIdsThatUsersReported) {
  const json cases = test_data("tokenizer-cases.json");
  ASSERT_GE(cases["encode"].size(), 130u);
  for (const json& item : cases["encode"]) {
    const Tokenizer& tokenizer = family_of(item["family"].get<std::string>());
    const auto text = item["text"].get<std::string>();
    const ControlTokens control =
        item["control"] == "parse" ? ControlTokens::parse : ControlTokens::as_text;
    const Ids ids = tokenizer.encode(text, control);
    EXPECT_EQ(ids, item["ids"].get<Ids>()) << item.dump();
    if (item["family"] == "distill_qwen") continue;
    EXPECT_EQ(tokenizer.decode(ids), text) << item.dump();
  }
}

TEST_F(PublicVocabularies, DecodeTheSameWholeAndInAStream) {
  const json cases = test_data("tokenizer-cases.json");
  ASSERT_GE(cases["decode"].size(), 7u);
  for (const json& item : cases["decode"]) {
    const Tokenizer& tokenizer = family_of(item["family"].get<std::string>());
    const Ids ids = item["ids"].get<Ids>();
    EXPECT_EQ(tokenizer.decode(ids), item["text"].get<std::string>()) << item.dump();
    Utf8Stream stream;
    std::string joined;
    for (const TokenId id : ids) joined += stream.push(tokenizer.bytes(id));
    EXPECT_EQ(joined + stream.finish(), item["text"].get<std::string>()) << item.dump();
  }
}

TEST_F(PublicVocabularies, NeverShowTheByteAlphabet) {
  const Tokenizer& tokenizer = family_of("r1");
  int checked = 0;
  for (TokenId id = 0; id < tokenizer.size(); ++id) {
    const std::string_view bytes = tokenizer.bytes(id);
    bool ascii = true;
    for (const char byte : bytes) ascii &= static_cast<uint8_t>(byte) < 0x80;
    if (!ascii) continue;
    ++checked;
    ASSERT_EQ(tokenizer.decode(Ids{id}), bytes) << id;
  }
  EXPECT_GT(checked, 70000);
}

TEST_F(PublicVocabularies, HaveTheIdsOfR1) {
  const Tokenizer& tokenizer = family_of("r1");
  EXPECT_EQ(tokenizer.size(), 128815);
  EXPECT_EQ(tokenizer.id_of("<think>"), 128798);
  EXPECT_EQ(tokenizer.id_of("</think>"), 128799);
  EXPECT_EQ(tokenizer.id_of("<｜begin▁of▁sentence｜>"), 0);
  EXPECT_EQ(tokenizer.id_of("<｜Assistant｜>"), 128804);
  EXPECT_EQ(tokenizer.id_of("<|EOT|>"), 128805);
  EXPECT_EQ(tokenizer.bytes(128803), "<｜User｜>");
  EXPECT_TRUE(tokenizer.added_token(1)->special);
  EXPECT_EQ(family_of("v3_file").id_of("<think>"), std::nullopt);
  EXPECT_EQ(family_of("v3_file").bos_token(), "<｜begin▁of▁sentence｜>");
  EXPECT_TRUE(family_of("v3_file").add_bos_token());
  EXPECT_EQ(family_of("v3_file").model_max_length(), 131072);
  EXPECT_FALSE(family_of("v3_file").chat_template().empty());
  EXPECT_EQ(Tokenizer::load(kFolder + "/llama3_1").model_max_length(), std::nullopt);
}

// Every token's own text, and all of them in a row, come back byte for byte.
TEST_F(PublicVocabularies, GiveBackTheTextOfEveryToken) {
  for (const char* family : {"r1", "distill_llama"}) {
    const Tokenizer& tokenizer = family_of(family);
    std::string text;
    for (TokenId id = 0; id < tokenizer.size(); ++id) {
      if (find_invalid_utf8(tokenizer.bytes(id)) == std::string::npos) text += tokenizer.bytes(id);
    }
    EXPECT_EQ(tokenizer.decode(tokenizer.encode(text, ControlTokens::parse)), text) << family;
    EXPECT_EQ(tokenizer.decode(tokenizer.encode(text, ControlTokens::as_text)), text) << family;
  }
}

}  // namespace
}  // namespace fathom
