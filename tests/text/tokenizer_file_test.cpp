// Damaged and unsupported tokenizer.json: every complaint names its field.
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "base/error.h"
#include "tests/text/small_vocabulary.h"
#include "text/tokenizer.h"

namespace fathom {
namespace {

using nlohmann::json;
using Ids = std::vector<TokenId>;

std::string parse_error(const std::string& text) {
  try {
    Tokenizer::parse(text, "folder/tokenizer.json");
    return "";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::input);
    return error.what();
  }
}

struct Damage {
  std::function<void(json&)> apply;
  std::string field;  // what the message must contain
};

TEST(TokenizerFile, NamesEveryKindOfDamage) {
  const std::vector<Damage> damages = {
      {[](json& f) { f = json::array(); }, "an object"},
      {[](json& f) { f.erase("model"); }, ": model: "},
      {[](json& f) { f["model"] = 5; }, ": model: "},
      {[](json& f) { f["model"]["type"] = "WordPiece"; }, "model.type: the model 'WordPiece'"},
      {[](json& f) { f["model"]["type"] = 1; }, "model.type: a string"},
      {[](json& f) { f["model"].erase("vocab"); }, "model.vocab"},
      {[](json& f) { f["model"]["vocab"] = json::array(); }, "model.vocab"},
      {[](json& f) { f["model"].erase("merges"); }, "model.merges"},
      {[](json& f) { f["model"]["merges"] = "a b"; }, "model.merges"},
      {[](json& f) { f["model"]["vocab"]["a"] = -1; }, "model.vocab.a: -1"},
      {[](json& f) { f["model"]["vocab"]["a"] = 1.5; }, "model.vocab.a: an integer"},
      {[](json& f) { f["model"]["vocab"]["a"] = "7"; }, "model.vocab.a: an integer"},
      {[](json& f) { f["model"]["vocab"]["a"] = 4194304; }, "model.vocab.a: 4194304"},
      {[](json& f) { f["model"]["vocab"]["a"] = 18446744073709551615u; }, "18446744073709551615"},
      {[](json& f) { f["model"]["vocab"]["new"] = 97; }, "model.vocab: the id 97 is given twice"},
      {[](json& f) { f["model"]["merges"].push_back("a"); }, "model.merges[1]"},
      {[](json& f) { f["model"]["merges"].push_back("a b c"); }, "model.merges[1]"},
      {[](json& f) { f["model"]["merges"].push_back({"a"}); }, "model.merges[1]"},
      {[](json& f) {
         f["model"]["merges"].push_back({"a", 5});
       },
       "model.merges[1]"},
      {[](json& f) { f["model"]["merges"].push_back(5); }, "model.merges[1]"},
      {[](json& f) { f["model"]["merges"].push_back("a zz"); }, "model.merges[1]: 'zz'"},
      {[](json& f) { f["model"]["merges"].push_back("xx a"); }, "model.merges[1]: 'xx'"},
      {[](json& f) { f["model"]["merges"].push_back("a c"); }, "model.merges[1]: 'ac'"},
      {[](json& f) { f["model"]["merges"].push_back(" a"); }, "model.merges[1]: ''"},
      {[](json& f) { f["model"]["dropout"] = 0.1; }, "model.dropout"},
      {[](json& f) { f["model"]["byte_fallback"] = true; }, "model.byte_fallback"},
      {[](json& f) { f["model"]["byte_fallback"] = "no"; }, "model.byte_fallback"},
      {[](json& f) { f["model"]["end_of_word_suffix"] = "</w>"; }, "model.end_of_word_suffix"},
      {[](json& f) { f["model"]["continuing_subword_prefix"] = "##"; },
       "model.continuing_subword_prefix"},
      {[](json& f) { f["model"]["unk_token"] = "<unk>"; }, "model.unk_token: '<unk>'"},
      {[](json& f) { f["model"]["ignore_merges"] = 1; }, "model.ignore_merges"},
      {[](json& f) { f["added_tokens"] = 5; }, "added_tokens: an array"},
      {[](json& f) { f["added_tokens"] = {5}; }, "added_tokens[0]"},
      {[](json& f) {
         f["added_tokens"] = {{{"content", "x"}}};
       },
       "added_tokens[0].id: is missing"},
      {[](json& f) { add_token(f, -3, "<x>"); }, "added_tokens[0].id: -3"},
      {[](json& f) { add_token(f, 1 << 30, "<x>"); }, "added_tokens[0].id"},
      {[](json& f) { add_token(f, 300, ""); }, "added_tokens[0].content"},
      {[](json& f) {
         add_token(f, 300, "<x>", {{"lstrip", "no"}});
       },
       "added_tokens[0].lstrip"},
      {[](json& f) { add_token(f, 97, "<x>"); }, "added_tokens[0]: the id 97 of '<x>'"},
      {[](json& f) { add_token(f, 300, "a"); }, "added_tokens[0]: 'a' has the id 300, but 97"},
      {[](json& f) {
         add_token(f, 300, "<x>");
         add_token(f, 300, "<y>");
       },
       "added_tokens[1]: the id 300"},
      {[](json& f) {
         add_token(f, 300, "<x>");
         add_token(f, 301, "<x>");
       },
       "added_tokens[1]: '<x>' is added a second time"},
      {[](json& f) {
         f["normalizer"] = {{"type", "Precompiled"}};
       },
       "normalizer.type: the normalizer 'Precompiled'"},
      {[](json& f) { f["normalizer"] = json::object(); }, "normalizer.type: is missing"},
      {[](json& f) { f["normalizer"] = "NFC"; }, "normalizer: an object"},
      {[](json& f) {
         f["normalizer"] = {{"type", "Sequence"}, {"normalizers", {{{"type", "Strip"}}}}};
       },
       "normalizer.normalizers[0].type"},
      {[](json& f) {
         f["normalizer"] = {{"type", "Sequence"},
                            {"normalizers", json(json::array_t(100, {{"type", "NFC"}}))}};
       },
       "normalizer.normalizers[63]: more than 64"},
      {[](json& f) {
         f["normalizer"] = {{"type", "Replace"}, {"pattern", {{"Regex", "a("}}}, {"content", ""}};
       },
       "normalizer.pattern.Regex: regular expression, offset 2"},
      {[](json& f) { f["pre_tokenizer"] = nullptr; }, "pre_tokenizer: has no ByteLevel"},
      {[](json& f) {
         f["pre_tokenizer"] = {{"type", "Metaspace"}};
       },
       "pre_tokenizer.type: the pre-tokenizer 'Metaspace'"},
      {[](json& f) { f["pre_tokenizer"]["use_regex"] = "x"; }, "pre_tokenizer.use_regex"},
      {[](json& f) {
         const json step = f["pre_tokenizer"];
         f["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", {step, step}}};
       },
       "pre_tokenizer.pretokenizers[1].type: a step after ByteLevel"},
      {[](json& f) {
         f["pre_tokenizer"] = {
             {"type", "Split"}, {"pattern", {{"Regex", "a"}}}, {"behavior", "Sideways"}};
       },
       "pre_tokenizer.behavior: the behavior 'Sideways'"},
      {[](json& f) {
         f["pre_tokenizer"] = {
             {"type", "Split"}, {"pattern", json::object()}, {"behavior", "Isolated"}};
       },
       "pre_tokenizer.pattern"},
      {[](json& f) {
         f["pre_tokenizer"] = {
             {"type", "Split"}, {"pattern", {{"Regex", "[a"}}}, {"behavior", "Isolated"}};
       },
       "pre_tokenizer.pattern.Regex: regular expression, offset 0"},
      {[](json& f) {
         f["decoder"] = {{"type", "Metaspace"}};
       },
       "decoder.type: the decoder 'Metaspace'"},
      {[](json& f) {
         f["decoder"] = {{"type", "Sequence"}, {"decoders", {{{"type", "Fuse"}}}}};
       },
       "decoder.decoders: has no ByteLevel"},
  };
  for (size_t i = 0; i < damages.size(); ++i) {
    json file = small_vocabulary({{"a", "b"}});
    ASSERT_EQ(parse_error(file.dump()), "");
    damages[i].apply(file);
    const std::string message = parse_error(file.dump());
    EXPECT_EQ(message.find("folder/tokenizer.json"), 0u) << i << ": " << message;
    EXPECT_NE(message.find(damages[i].field), std::string::npos)
        << i << ": '" << message << "' should contain '" << damages[i].field << "'";
  }
}

TEST(TokenizerFile, NamesTheLineOfBrokenJson) {
  EXPECT_NE(parse_error("").find("folder/tokenizer.json:1:"), std::string::npos);
  EXPECT_NE(parse_error("{\n\"model\": }").find("folder/tokenizer.json:2:"), std::string::npos);
  const std::string whole = small_vocabulary({{"a", "b"}}).dump();
  for (size_t length = 0; length < whole.size(); length += 37) {
    EXPECT_NE(parse_error(whole.substr(0, length)), "");
  }
  EXPECT_NE(parse_error(R"({"model": {"vocab": {"a": 1, "a": 2}}})").find("'a'"),
            std::string::npos);
}

TEST(TokenizerFile, TakesWhatOtherWritersLeaveOutOrAdd) {
  json file = small_vocabulary({{"a", "b"}});
  file.erase("decoder");
  file.erase("added_tokens");
  file.erase("normalizer");
  file["model"].erase("type");
  file["model"]["dropout"] = 0.0;
  file["model"]["end_of_word_suffix"] = "";
  file["truncation"] = {{"max_length", 1}};
  EXPECT_EQ(Tokenizer::parse(file.dump(), "x").encode("abc", ControlTokens::parse),
            (Ids{256, 'c'}));
  file["decoder"] = {{"type", "Sequence"},
                     {"decoders", {{{"type", "ByteLevel"}}, {{"type", "Fuse"}}}}};
  file["normalizer"] = {{"type", "Sequence"}, {"normalizers", json::array()}};
  EXPECT_EQ(Tokenizer::parse(file.dump(), "x").encode("abc", ControlTokens::parse),
            (Ids{256, 'c'}));
}

// The pieces of `text` under a pre-tokenizer, shown by where a merge of all pairs is prevented.
std::vector<std::string> pieces(const json& pre_tokenizers, const std::string& text) {
  json file = small_vocabulary();
  json list = pre_tokenizers;
  if (list.empty() || list.back()["type"] != "ByteLevel") {
    list.push_back({{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}});
  }
  file["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", list}};
  // Every piece of the text becomes one token, because every substring is one.
  file["model"]["ignore_merges"] = true;
  int next = 256;
  for (size_t begin = 0; begin < text.size(); ++begin) {
    for (size_t length = 2; begin + length <= text.size(); ++length) {
      for (const char* prefix : {"", " "}) {
        const std::string spelling = spelling_of_bytes(prefix + text.substr(begin, length));
        if (!file["model"]["vocab"].contains(spelling)) file["model"]["vocab"][spelling] = next++;
      }
    }
  }
  const Tokenizer tokenizer = Tokenizer::parse(file.dump(), "x");
  std::vector<std::string> out;
  for (const TokenId id : tokenizer.encode(text, ControlTokens::parse)) {
    out.emplace_back(tokenizer.bytes(id));
  }
  return out;
}

TEST(TokenizerFile, BuildsEachPreTokenizer) {
  using Strings = std::vector<std::string>;
  EXPECT_EQ(pieces({{{"type", "Split"}, {"pattern", {{"String", "b"}}}, {"behavior", "Isolated"}}},
                   "abc"),
            (Strings{"a", "b", "c"}));
  EXPECT_EQ(pieces({{{"type", "Split"},
                     {"pattern", {{"Regex", "[bc]"}}},
                     {"behavior", "Removed"},
                     {"invert", true}}},
                   "abca"),
            (Strings{"b", "c"}));
  EXPECT_EQ(pieces({{{"type", "Digits"}, {"individual_digits", true}}}, "a123"),
            (Strings{"a", "1", "2", "3"}));
  EXPECT_EQ(pieces({{{"type", "Digits"}}}, "a123b"), (Strings{"a", "123", "b"}));
  EXPECT_EQ(pieces({{{"type", "Whitespace"}}}, "ab, c"), (Strings{"ab", ",", "c"}));
  EXPECT_EQ(pieces({{{"type", "WhitespaceSplit"}}}, "ab, c"), (Strings{"ab,", "c"}));
  EXPECT_EQ(pieces({{{"type", "Punctuation"}}}, "a,,b"), (Strings{"a", ",", ",", "b"}));
  EXPECT_EQ(pieces({{{"type", "Punctuation"}, {"behavior", "Contiguous"}}}, "a,$b"),
            (Strings{"a", ",$", "b"}));
  EXPECT_EQ(pieces({{{"type", "ByteLevel"}, {"add_prefix_space", false}}}, "it's 12  x!"),
            (Strings{"it", "'s", " 12", " ", " x", "!"}));
  EXPECT_EQ(pieces({{{"type", "ByteLevel"}}}, "ab cd"), (Strings{" ab", " cd"}));
  EXPECT_EQ(pieces({{{"type", "Digits"}}, {{"type", "ByteLevel"}, {"use_regex", false}}}, "ab12"),
            (Strings{" ab", " 12"}));
}

}  // namespace
}  // namespace fathom
