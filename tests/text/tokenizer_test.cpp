#include "text/tokenizer.h"

#include <gtest/gtest.h>

#include <fstream>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "tests/temporary_folder.h"
#include "tests/text/small_vocabulary.h"

namespace fathom {
namespace {

using namespace std::string_literals;
using nlohmann::json;
using Ids = std::vector<TokenId>;

Tokenizer make(const json& file) { return Tokenizer::parse(file.dump(), "small.json"); }

Ids encode(const Tokenizer& tokenizer, const std::string& text) {
  return tokenizer.encode(text, ControlTokens::parse);
}

std::vector<std::string> tokens_of(const Tokenizer& tokenizer, const std::string& text) {
  std::vector<std::string> tokens;
  for (const TokenId id : encode(tokenizer, text)) tokens.emplace_back(tokenizer.bytes(id));
  return tokens;
}

TEST(Tokenizer, MergesLowestRankFirstAndLeftmostAmongEquals) {
  const Tokenizer tokenizer =
      make(small_vocabulary({{"b", "c"}, {"a", "b"}, {"a", "a"}, {"aa", "a"}, {"bc", "d"}}));
  EXPECT_EQ(tokens_of(tokenizer, "abc"), (std::vector<std::string>{"a", "bc"}));
  EXPECT_EQ(tokens_of(tokenizer, "abcd"), (std::vector<std::string>{"a", "bcd"}));
  EXPECT_EQ(tokens_of(tokenizer, "aaaaa"), (std::vector<std::string>{"aa", "aaa"}));
  EXPECT_EQ(tokens_of(tokenizer, "abab"), (std::vector<std::string>{"ab", "ab"}));
  EXPECT_EQ(encode(tokenizer, ""), Ids{});
  EXPECT_EQ(encode(tokenizer, "\0x\0"s), (Ids{0, 'x', 0}));
}

TEST(Tokenizer, TakesMergesAsPairsAndAsStrings) {
  json file = small_vocabulary({{"a", "b"}, {" ", "ab"}});
  const Tokenizer pairs = make(file);
  json& merges = file["model"]["merges"];
  for (json& merge : merges) {
    merge = merge[0].get<std::string>() + " " + merge[1].get<std::string>();
  }
  const Tokenizer strings = make(file);
  EXPECT_EQ(encode(pairs, "ab ab"), (Ids{256, 257}));
  EXPECT_EQ(encode(strings, "ab ab"), (Ids{256, 257}));
}

// A piece that is a token as a whole is that token only where the file says so.
TEST(Tokenizer, IgnoresMergesWhereTheFileSaysSo) {
  json file = small_vocabulary({{"x", "y"}});
  file["model"]["vocab"]["abc"] = 300;
  EXPECT_EQ(encode(make(file), "abc"), (Ids{'a', 'b', 'c'}));
  file["model"]["ignore_merges"] = true;
  const Tokenizer tokenizer = make(file);
  EXPECT_EQ(encode(tokenizer, "abc"), Ids{300});
  EXPECT_EQ(encode(tokenizer, "abcxy"), (Ids{'a', 'b', 'c', 256}));
  EXPECT_EQ(tokenizer.size(), 301);
}

TEST(Tokenizer, SaysWhichByteHasNoToken) {
  json file = small_vocabulary();
  file["model"]["vocab"].erase("A");
  const Tokenizer tokenizer = make(file);
  EXPECT_EQ(encode(tokenizer, "ba"), (Ids{'b', 'a'}));
  for (const char* text : {"bbA", "AA", "A"}) {
    try {
      encode(tokenizer, text);
      FAIL() << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::input);
      EXPECT_NE(std::string(error.what()).find("0x41"), std::string::npos) << error.what();
    }
  }
  file["model"]["vocab"]["<unk>"] = 500;
  file["model"]["unk_token"] = "<unk>";
  EXPECT_EQ(encode(make(file), "bAAb"), (Ids{'b', 500, 500, 'b'}));
  file["model"]["fuse_unk"] = true;
  EXPECT_EQ(encode(make(file), "bAAbA"), (Ids{'b', 500, 'b', 500}));
}

TEST(Tokenizer, RefusesInvalidUtf8WithTheOffset) {
  const Tokenizer tokenizer = make(small_vocabulary());
  for (const auto control : {ControlTokens::parse, ControlTokens::as_text}) {
    try {
      tokenizer.encode("abc\xED\xA0\x80", control);
      FAIL();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::input);
      EXPECT_NE(std::string(error.what()).find("offset 3"), std::string::npos) << error.what();
    }
  }
}

TEST(Tokenizer, CutsOutAddedTokensLongestFirst) {
  json file = small_vocabulary({{"<", "s"}});
  add_token(file, 300, "<s>");
  add_token(file, 301, "<s><s>");
  add_token(file, 302, "<sx", {{"special", true}});
  add_token(file, 303, "s>");
  const Tokenizer tokenizer = make(file);
  EXPECT_EQ(encode(tokenizer, "<s>"), Ids{300});
  EXPECT_EQ(encode(tokenizer, "<s><s><s>"), (Ids{301, 300}));
  EXPECT_EQ(encode(tokenizer, "a<s><sb"), (Ids{'a', 300, 256, 'b'}));
  EXPECT_EQ(encode(tokenizer, "<sx<s"), (Ids{302, 256}));
  EXPECT_EQ(encode(tokenizer, "s>"), Ids{303});
  // What users write is text, all of it.
  EXPECT_EQ(tokenizer.encode("<s><sx", ControlTokens::as_text), (Ids{256, '>', 256, 'x'}));
  EXPECT_EQ(tokenizer.decode(Ids{301, 302, 'x'}), "<s><s><sxx");
  EXPECT_EQ(tokenizer.decode(Ids{301, 302, 'x'}, true), "<s><s>x");
  ASSERT_NE(tokenizer.added_token(302), nullptr);
  EXPECT_TRUE(tokenizer.added_token(302)->special);
  EXPECT_EQ(tokenizer.added_token(302)->content, "<sx");
  EXPECT_EQ(tokenizer.added_token(256), nullptr);
  EXPECT_EQ(tokenizer.added_token(-1), nullptr);
  EXPECT_EQ(tokenizer.added_token(304), nullptr);
}

TEST(Tokenizer, HonoursTheFlagsOfAddedTokens) {
  json file = small_vocabulary();
  add_token(file, 300, "LL", {{"lstrip", true}});
  add_token(file, 301, "RR", {{"rstrip", true}});
  add_token(file, 302, "WW", {{"single_word", true}});
  const Tokenizer tokenizer = make(file);
  EXPECT_EQ(encode(tokenizer, "a \xE3\x80\x80\tLL b"), (Ids{'a', 300, ' ', 'b'}));
  EXPECT_EQ(encode(tokenizer, "a RR\n b"), (Ids{'a', ' ', 301, 'b'}));
  // White space that RR took is not there for LL.
  EXPECT_EQ(encode(tokenizer, "RR LL"), (Ids{301, 300}));
  EXPECT_EQ(encode(tokenizer, "WW WW"), (Ids{302, ' ', 302}));
  EXPECT_EQ(encode(tokenizer, "(WW)"), (Ids{'(', 302, ')'}));
  EXPECT_EQ(encode(tokenizer, "aWW WW_"), (Ids{'a', 'W', 'W', ' ', 'W', 'W', '_'}));
  EXPECT_EQ(encode(tokenizer, "WW\xC3\xA9"), (Ids{'W', 'W', 0xC3, 0xA9}));
  EXPECT_EQ(encode(tokenizer, "\xC3\xA9WW"), (Ids{0xC3, 0xA9, 'W', 'W'}));
}

TEST(Tokenizer, LooksForNormalizedTokensInNormalisedText) {
  json file = small_vocabulary();
  file["normalizer"] = {{"type", "NFC"}};
  add_token(file, 300, "cafe\xCC\x81", {{"normalized", true}});
  add_token(file, 301, "the\xCC\x81");
  const Tokenizer tokenizer = make(file);
  EXPECT_EQ(encode(tokenizer, "xcaf\xC3\xA9"), (Ids{'x', 300}));
  EXPECT_EQ(encode(tokenizer, "cafe\xCC\x81"), Ids{300});
  EXPECT_EQ(encode(tokenizer, "the\xCC\x81"), Ids{301});
  EXPECT_EQ(encode(tokenizer, "th\xC3\xA9"), (Ids{'t', 'h', 0xC3, 0xA9}));
  EXPECT_EQ(tokenizer.encode("e\xCC\x81", ControlTokens::as_text), (Ids{0xC3, 0xA9}));
}

// A special token that merges could build stays out of reach of plain text.
TEST(Tokenizer, NeverBuildsASpecialTokenFromText) {
  json file = small_vocabulary({{"<", "e"}, {"<e", ">"}});
  add_token(file, 257, "<e>", {{"special", true}});
  for (const bool ignore_merges : {false, true}) {
    file["model"]["ignore_merges"] = ignore_merges;
    const Tokenizer tokenizer = make(file);
    EXPECT_EQ(encode(tokenizer, "<e>"), Ids{257});
    EXPECT_EQ(tokenizer.encode("<e>", ControlTokens::as_text), (Ids{256, '>'}));
  }
}

TEST(Tokenizer, DecodesBytesAndIgnoresIdsWithoutText) {
  json file = small_vocabulary({{"\xF0", "\x9F"}, {" ", "x"}});
  add_token(file, 400, "<end>");
  const Tokenizer tokenizer = make(file);
  EXPECT_EQ(tokenizer.bytes(257), " x");
  EXPECT_EQ(tokenizer.bytes(256), "\xF0\x9F");
  EXPECT_EQ(tokenizer.bytes(300), "");  // a hole below the highest id
  EXPECT_EQ(tokenizer.bytes(401), "");
  EXPECT_EQ(tokenizer.bytes(-1), "");
  EXPECT_EQ(tokenizer.bytes(INT32_MAX), "");
  EXPECT_EQ(tokenizer.bytes(INT32_MIN), "");
  EXPECT_EQ(tokenizer.decode(Ids{'a', 256, 0x98, 0x80, -5, 1000, 257, 400}),
            "a\xF0\x9F\x98\x80 x<end>");
  EXPECT_EQ(tokenizer.decode(Ids{256, 'a'}),
            "\xEF\xBF\xBD"
            "a");
  EXPECT_EQ(tokenizer.decode(Ids{}), "");
  EXPECT_EQ(tokenizer.size(), 401);
}

TEST(Tokenizer, FindsIdsByTheFilesSpelling) {
  json file = small_vocabulary({{" ", "x"}});
  file["model"]["vocab"]["<\xEF\xBD\x9C"] = 300;
  add_token(file, 301, "<think>");
  const Tokenizer tokenizer = make(file);
  EXPECT_EQ(tokenizer.id_of("<think>"), 301);
  EXPECT_EQ(tokenizer.id_of("\xC4\xA0x"), 256);
  EXPECT_EQ(tokenizer.id_of("<\xEF\xBD\x9C"), 300);
  EXPECT_EQ(tokenizer.id_of("nothing"), std::nullopt);
  EXPECT_EQ(tokenizer.id_of(""), std::nullopt);
  EXPECT_EQ(tokenizer.id_of("\xFF"), std::nullopt);
}

// Long pieces go another way than short ones; a plain loop over all pairs knows the answer.
TEST(Tokenizer, MergesLongPiecesLikeShortOnes) {
  std::mt19937 random(7);
  std::vector<std::pair<std::string, std::string>> merges = {
      {"a", "b"},   {"b", "a"}, {"ab", "ab"}, {"a", "a"},    {"c", "ab"},   {"ba", "c"},
      {"aa", "aa"}, {"b", "b"}, {"bb", "b"},  {"abab", "c"}, {"cab", "cab"}};
  const Tokenizer tokenizer = make(small_vocabulary(merges));
  for (int round = 0; round < 400; ++round) {
    std::string text;
    for (size_t length = random() % 300; text.size() < length;) text += "abc"[random() % 3];
    std::vector<std::string> parts;
    for (const char c : text) parts.emplace_back(1, c);
    for (bool merged = true; merged;) {
      merged = false;
      for (size_t rank = 0; rank < merges.size() && !merged; ++rank) {
        for (size_t i = 0; i + 1 < parts.size() && !merged; ++i) {
          if (parts[i] != merges[rank].first || parts[i + 1] != merges[rank].second) continue;
          parts[i] += parts[i + 1];
          parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(i) + 1);
          merged = true;
        }
      }
    }
    ASSERT_EQ(tokens_of(tokenizer, text), parts) << text;
  }
}

// One piece of a million bytes: the quadratic way would take hours.
TEST(Tokenizer, TakesAMillionBytesWithoutASpace) {
  const Tokenizer tokenizer =
      make(small_vocabulary({{"a", "a"}, {"aa", "aa"}, {"aaaa", "aaaa"}, {"b", "a"}}));
  EXPECT_EQ(encode(tokenizer, std::string(1 << 20, 'a')), Ids((1 << 20) / 8, 258));
}

TEST(Tokenizer, ReadsTheFolder) {
  const TemporaryFolder folder;
  const auto write = [&](const std::string& name, const std::string& text) {
    std::ofstream(folder / name, std::ios::binary) << text;
  };
  const auto read_error = [&]() -> std::string {
    try {
      Tokenizer::load(folder.path());
      return "";
    } catch (const Error& error) {
      return error.what();
    }
  };
  EXPECT_NE(read_error().find("tokenizer.json"), std::string::npos);
  write("tokenizer.json", small_vocabulary().dump());
  const Tokenizer bare = Tokenizer::load(folder.path());
  EXPECT_EQ(bare.bos_token(), "");
  EXPECT_EQ(bare.eos_token(), "");
  EXPECT_FALSE(bare.add_bos_token());
  EXPECT_EQ(bare.model_max_length(), std::nullopt);
  EXPECT_EQ(bare.chat_template(), "");

  write("tokenizer_config.json",
        R"({"bos_token": {"content": "<s>", "special": true}, "eos_token": "</s>",
            "add_bos_token": true, "model_max_length": 16384, "chat_template": "T"})");
  const Tokenizer full = Tokenizer::load(folder.path());
  EXPECT_EQ(full.bos_token(), "<s>");
  EXPECT_EQ(full.eos_token(), "</s>");
  EXPECT_TRUE(full.add_bos_token());
  EXPECT_EQ(full.model_max_length(), 16384);
  EXPECT_EQ(full.chat_template(), "T");

  write("tokenizer_config.json",
        R"({"bos_token": null, "model_max_length": 1000000000000000019884624838656,
            "chat_template": [{"name": "tools", "template": "A"},
                              {"name": "default", "template": "B"}]})");
  EXPECT_EQ(Tokenizer::load(folder.path()).model_max_length(), std::nullopt);
  EXPECT_EQ(Tokenizer::load(folder.path()).chat_template(), "B");
  write("chat_template.jinja", "C");
  EXPECT_EQ(Tokenizer::load(folder.path()).chat_template(), "C");
  write("chat_template.jinja", "C\xFF");
  EXPECT_NE(read_error().find("chat_template.jinja: invalid UTF-8 at offset 1"), std::string::npos);
  write("chat_template.jinja", "");

  for (const auto& [text, field] : std::vector<std::pair<std::string, std::string>>{
           {"[]", "tokenizer_config.json: an object"},
           {R"({"bos_token": 5})", "tokenizer_config.json: bos_token"},
           {R"({"eos_token": {"id": 5}})", "eos_token.content"},
           {R"({"add_bos_token": "yes"})", "add_bos_token"},
           {R"({"model_max_length": "long"})", "model_max_length"},
           {R"({"model_max_length": -1})", "model_max_length"},
           {R"({"chat_template": [{"name": "default"}]})", "chat_template[0].template"},
           {R"({"chat_template": 1})", "chat_template"},
           {"{", "tokenizer_config.json"}}) {
    write("tokenizer_config.json", text);
    EXPECT_NE(read_error().find(field), std::string::npos) << text << ": " << read_error();
  }
}

// The only state that encoding touches: what single tokens merge to.
TEST(TokenizerThreads, EncodesOnManyThreadsAtOnce) {
  std::vector<std::pair<std::string, std::string>> merges;
  for (char c = 'a'; c < 'z'; ++c) merges.push_back({std::string(1, c), std::string(1, c + 1)});
  json file = small_vocabulary(merges);
  file["pre_tokenizer"]["use_regex"] = true;
  const Tokenizer tokenizer = make(file);
  std::string text;
  for (int i = 0; i < 2000; ++i) {
    text += static_cast<char>('a' + i * 7 % 26);
    text += static_cast<char>('a' + (i * 7 + 1) % 26);
    if (i % 3 == 0) text += ' ';
  }
  const Ids expected = encode(make(file), text);
  std::vector<Ids> got(4);
  std::vector<std::thread> threads;
  for (Ids& ids : got) threads.emplace_back([&] { ids = encode(tokenizer, text); });
  for (std::thread& thread : threads) thread.join();
  for (const Ids& ids : got) EXPECT_EQ(ids, expected);
}

}  // namespace
}  // namespace fathom
