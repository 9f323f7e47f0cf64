#include "text/utf8_stream.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

namespace fathom {
namespace {

using namespace std::string_literals;

struct Repaired {
  std::string bytes;
  std::string text;
  size_t first_invalid;
};

const std::string kMark = "\xEF\xBF\xBD";
constexpr size_t kNone = std::string::npos;

// Bytes, what web decoders make of them, and where the first ill-formed byte is.
const std::vector<Repaired>& samples() {
  static const std::vector<Repaired> list = {
      {"", "", kNone},
      {"plain text, longer than eight bytes", "plain text, longer than eight bytes", kNone},
      {"a\0b"s, "a\0b"s, kNone},
      {"h\xC3\xA9", "h\xC3\xA9", kNone},
      {"\xE2\x82\xAC\xF0\x9F\x98\x80", "\xE2\x82\xAC\xF0\x9F\x98\x80", kNone},
      {"\xF4\x8F\xBF\xBF", "\xF4\x8F\xBF\xBF", kNone},              // U+10FFFF
      {"\xEF\xBB\xBFx", "\xEF\xBB\xBFx", kNone},                    // U+FEFF is a character
      {"\x80", kMark, 0},                                           // a continuation alone
      {"ab\xBF\xBFz", "ab" + kMark + kMark + "z", 2},               // one mark for each
      {"\xC0\xAF", kMark + kMark, 0},                               // overlong "/"
      {"\xC1\xBF", kMark + kMark, 0},                               //
      {"\xE0\x80\xAF", kMark + kMark + kMark, 0},                   // overlong in three
      {"\xE0\x9F\xBF", kMark + kMark + kMark, 0},                   //
      {"\xF0\x80\x80\xAF", kMark + kMark + kMark + kMark, 0},       // overlong in four
      {"\xED\xA0\x80", kMark + kMark + kMark, 0},                   // a surrogate
      {"\xED\xBF\xBF!", kMark + kMark + kMark + "!", 0},            //
      {"\xED\x9F\xBF", "\xED\x9F\xBF", kNone},                      // the last before them
      {"\xF4\x90\x80\x80", kMark + kMark + kMark + kMark, 0},       // beyond U+10FFFF
      {"\xF5\x80\xFF", kMark + kMark + kMark, 0},                   // never a lead byte
      {"\xE2\x82", kMark, 0},                                       // cut short: one mark
      {"\xF0\x9F\x98", kMark, 0},                                   //
      {"\xF0\x9F\x98z", kMark + "z", 0},                            // one maximal part
      {"\xE2\x82\xE2\x82\xAC", kMark + "\xE2\x82\xAC", 0},          //
      {"\xF0\x9F\xF0\x9F\x98\x80", kMark + "\xF0\x9F\x98\x80", 0},  //
      {"x\xF1\x80\x80\xE1\x80\xC2z", "x" + kMark + kMark + kMark + "z", 1},
      {"12345678\xE2\x28\xA1", "12345678" + kMark + "(" + kMark, 8},
      {"\xC2\xC2\x80", kMark + "\xC2\x80", 0},
      {"12345678\xC3", "12345678" + kMark, 8},
  };
  return list;
}

TEST(RepairUtf8, MakesOneMarkOfEachMaximalIllFormedPart) {
  for (const Repaired& sample : samples()) {
    EXPECT_EQ(repair_utf8(sample.bytes), sample.text) << testing::PrintToString(sample.bytes);
    EXPECT_EQ(find_invalid_utf8(sample.bytes), sample.first_invalid)
        << testing::PrintToString(sample.bytes);
    EXPECT_EQ(find_invalid_utf8(sample.text), kNone);
  }
}

TEST(FindInvalidUtf8, AcceptsEveryCharacterAndNoSurrogate) {
  for (uint32_t code = 0; code <= 0x10FFFF; ++code) {
    std::string text;
    if (code < 0x80) {
      text += static_cast<char>(code);
    } else if (code < 0x800) {
      text += static_cast<char>(0xC0 | code >> 6);
      text += static_cast<char>(0x80 | (code & 0x3F));
    } else if (code < 0x10000) {
      text += static_cast<char>(0xE0 | code >> 12);
      text += static_cast<char>(0x80 | (code >> 6 & 0x3F));
      text += static_cast<char>(0x80 | (code & 0x3F));
    } else {
      text += static_cast<char>(0xF0 | code >> 18);
      text += static_cast<char>(0x80 | (code >> 12 & 0x3F));
      text += static_cast<char>(0x80 | (code >> 6 & 0x3F));
      text += static_cast<char>(0x80 | (code & 0x3F));
    }
    const bool surrogate = code >= 0xD800 && code <= 0xDFFF;
    ASSERT_EQ(find_invalid_utf8(text), surrogate ? 0 : kNone) << code;
  }
}

// Every way to cut a sample into pieces gives the same text; no piece is ever ill-formed.
TEST(Utf8Stream, GivesTheSameTextForEveryCut) {
  for (const Repaired& sample : samples()) {
    const size_t places = sample.bytes.size() < 2 ? 0 : sample.bytes.size() - 1;
    if (places > 12) continue;
    for (uint32_t cuts = 0; cuts < (1u << places); ++cuts) {
      Utf8Stream stream;
      std::string joined;
      size_t begin = 0;
      for (size_t end = 1; end <= sample.bytes.size(); ++end) {
        const bool cut = end == sample.bytes.size() || (cuts >> (end - 1) & 1) != 0;
        if (!cut) continue;
        const std::string piece =
            stream.push(std::string_view(sample.bytes).substr(begin, end - begin));
        ASSERT_EQ(find_invalid_utf8(piece), kNone);
        joined += piece;
        begin = end;
      }
      joined += stream.finish();
      ASSERT_EQ(joined, sample.text) << testing::PrintToString(sample.bytes) << " cuts " << cuts;
    }
  }
}

// All samples in one row, cut in two at every place and into single bytes.
TEST(Utf8Stream, GivesTheSameTextForLongInputs) {
  std::string bytes;
  for (const Repaired& sample : samples()) bytes += sample.bytes + "|";
  const std::string whole = repair_utf8(bytes);
  for (size_t cut = 0; cut <= bytes.size(); ++cut) {
    Utf8Stream stream;
    std::string joined = stream.push(std::string_view(bytes).substr(0, cut));
    joined += stream.push("");
    joined += stream.push(std::string_view(bytes).substr(cut));
    ASSERT_EQ(joined + stream.finish(), whole) << cut;
  }
  Utf8Stream stream;
  std::string joined;
  for (const char byte : bytes) joined += stream.push({&byte, 1});
  EXPECT_EQ(joined + stream.finish(), whole);
}

TEST(Utf8Stream, HoldsBackWhatIsNotCertain) {
  Utf8Stream stream;
  EXPECT_EQ(stream.push("a\xF0"), "a");
  EXPECT_EQ(stream.push("\x9F"), "");
  EXPECT_EQ(stream.push("\x98"), "");
  EXPECT_EQ(stream.push("\x80z"), "\xF0\x9F\x98\x80z");
  EXPECT_EQ(stream.push("\xE2\x82"), "");
  EXPECT_EQ(stream.push("b"), kMark + "b");
  EXPECT_EQ(stream.push("\xC3"), "");
  EXPECT_EQ(stream.finish(), kMark);
  EXPECT_EQ(stream.finish(), "");
  EXPECT_EQ(stream.push("\xA9"), kMark);
}

}  // namespace
}  // namespace fathom
