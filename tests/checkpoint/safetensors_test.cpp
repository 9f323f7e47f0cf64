#include "checkpoint/safetensors.h"

#include <gtest/gtest.h>

#include "tests/checkpoint/toy.h"

namespace fathom {
namespace {

// Parses a header as the header of a file with `payload` bytes behind it.
SafetensorsHeader parse(const std::string& header, uint64_t payload) {
  return parse_safetensors_header(header, 8 + header.size() + payload, "a.safetensors");
}

void expect_refused(const std::string& header, uint64_t payload,
                    const std::vector<std::string>& parts) {
  const std::string message = error_of([&] { parse(header, payload); });
  expect_contains(message, {"a.safetensors"});
  expect_contains(message, parts);
}

// The message for a whole file.
std::string file_error(const std::string& bytes) {
  TemporaryFolder folder;
  const std::string path = folder / "m.safetensors";
  write_file(path, bytes);
  const std::string message = error_of([&] { read_safetensors_header(File(path)); });
  expect_contains(message, {path});
  return message;
}

std::string one_tensor(const std::string& fields) { return R"({"t":{)" + fields + "}}"; }

TEST(Safetensors, ReadsTensorsInTheirOrder) {
  TemporaryFolder folder;
  const std::string path = folder / "m.safetensors";
  // 22 bytes of header padding put the data at an odd place.
  const std::string header =
      R"({"__metadata__":{"format":"pt"},"b":{"dtype":"BF16","shape":[2,3],"data_offsets":[1,13]},)"
      R"( "a":{"data_offsets":[0,1],"shape":[],"dtype":"U8"},"none":{"dtype":"F32","shape":[0,7],)"
      R"("data_offsets":[13,13]}}  )";
  write_file(path, container(header, std::string(13, 'x')));
  const SafetensorsHeader read = read_safetensors_header(File(path));
  EXPECT_EQ(read.header_bytes, header.size());
  ASSERT_EQ(read.tensors.size(), 3u);
  EXPECT_EQ(read.tensors[0].name, "b");
  EXPECT_EQ(read.tensors[0].dtype, Dtype::bf16);
  EXPECT_EQ(read.tensors[0].shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(read.tensors[0].offset, 8 + header.size() + 1);
  EXPECT_EQ(read.tensors[0].bytes, 12u);
  EXPECT_EQ(read.tensors[1].name, "a");
  EXPECT_EQ(read.tensors[1].bytes, 1u);
  EXPECT_EQ(read.tensors[2].bytes, 0u);
}

TEST(Safetensors, KnowsEveryDtypeBySize) {
  for (const Dtype dtype :
       {Dtype::f8_e4m3, Dtype::bf16, Dtype::f16, Dtype::f32, Dtype::f64, Dtype::i64, Dtype::i32,
        Dtype::i16, Dtype::i8, Dtype::u8, Dtype::boolean, Dtype::f8_e5m2, Dtype::f8_e8m0,
        Dtype::u64, Dtype::u32, Dtype::u16, Dtype::c64}) {
    const int64_t bytes = 5 * dtype_bytes(dtype);
    const SafetensorsHeader header =
        parse(one_tensor(R"("dtype":")" + std::string(dtype_name(dtype)) +
                         R"(","shape":[5],"data_offsets":[0,)" + std::to_string(bytes) + "]"),
              static_cast<uint64_t>(bytes));
    EXPECT_EQ(header.tensors.at(0).dtype, dtype);
  }
  EXPECT_EQ(dtype_name(Dtype::f8_e4m3), "F8_E4M3");
  EXPECT_EQ(dtype_name(Dtype::boolean), "BOOL");
  expect_refused(one_tensor(R"("dtype":"F4","shape":[2],"data_offsets":[0,1])"), 1,
                 {"tensor 't'", "unknown dtype 'F4'"});
}

TEST(Safetensors, TakesGapsNamesAndMetadataOfAnyKind) {
  const SafetensorsHeader gaps =
      parse(R"({"é 名":{"dtype":"U8","shape":[2],"data_offsets":[10,12]},)"
            R"("b\u0062":{"dtype":"U8","shape":[1],"data_offsets":[3,4]}})",
            12);
  EXPECT_EQ(gaps.tensors[0].name, "é 名");
  EXPECT_EQ(gaps.tensors[1].name, "bb");
  for (const char* metadata :
       {"null", "{}", "7", "\"text\"", R"({"a":{"b":[1,2.5,{"c":null}]},"d":true})", "[[],[]]"}) {
    const SafetensorsHeader header =
        parse(std::string(R"({"t":{"dtype":"U8","shape":[1],"data_offsets":[0,1],"more":)") +
                  metadata + R"(},"__metadata__":)" + metadata + "}",
              1);
    EXPECT_EQ(header.tensors.size(), 1u) << metadata;
  }
  EXPECT_TRUE(parse("{}", 0).tensors.empty());
}

TEST(Safetensors, SaysWhatAFileIsInstead) {
  expect_contains(file_error("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 5\n"),
                  {"a Git LFS pointer, not the file itself"});
  expect_contains(file_error("<!DOCTYPE html>\n<html><body>Sign in</body></html>"),
                  {"an HTML page"});
  expect_contains(file_error("\n  <html lang=\"en\"></html>"), {"an HTML page"});
  expect_contains(file_error("GGUF\x03 and so on and so on"), {"a GGUF file"});
  expect_contains(file_error(R"({"error":"Repository not found"})"), {"JSON text"});
  expect_contains(file_error(""), {"the file is empty"});
  expect_contains(file_error("1234567"), {"7 bytes are too few"});
}

TEST(Safetensors, RefusesLengthsBeyondFileAndFormat) {
  const std::string rest(100, '\x01');
  expect_contains(file_error(std::string(8, '\xff') + rest),
                  {"18446744073709551615 bytes", "100000000"});
  expect_contains(file_error(length_field(uint64_t{1} << 63) + rest), {"9223372036854775808"});
  expect_contains(file_error(length_field(100'000'001) + rest), {"100000001", "100000000"});
  expect_contains(file_error(length_field(101) + rest), {"101 bytes", "cut short"});
  expect_contains(file_error(length_field(0)), {"unexpected end of input"});

  // The cap holds even where the file is long enough (a sparse one).
  TemporaryFolder folder;
  const std::string path = folder / "m.safetensors";
  write_file(path, length_field(100'000'001));
  std::filesystem::resize_file(path, 200'000'000);
  expect_contains(error_of([&] { read_safetensors_header(File(path)); }), {"100000001"});
}

TEST(Safetensors, RefusesFilesThatAreCutShort) {
  TemporaryFolder folder;
  const std::string path = folder / "m.safetensors";
  const std::string bytes = safetensors_of({toy("first", "0123"), toy("last", "456789")});
  write_file(path, bytes);
  EXPECT_EQ(read_safetensors_header(File(path)).tensors.size(), 2u);
  // Whatever is missing, the file is refused, and where the header is whole, by the tensor's name.
  for (size_t size = 0; size < bytes.size(); ++size) {
    write_file(path, bytes.substr(0, size));
    const std::string message = error_of([&] { read_safetensors_header(File(path)); });
    expect_contains(message, {path});
    if (size >= bytes.size() - 6) expect_contains(message, {"'last'", "cut short"});
  }
}

TEST(Safetensors, RefusesExtentsThatDoNotFit) {
  expect_refused(one_tensor(R"("dtype":"F32","shape":[2,3],"data_offsets":[0,23])"), 24,
                 {"'t'", "F32 [2,3] takes 24 bytes", "give it 23"});
  expect_refused(one_tensor(R"("dtype":"F32","shape":[],"data_offsets":[0,8])"), 8, {"takes 4"});
  expect_refused(one_tensor(R"("dtype":"U8","shape":[0],"data_offsets":[0,1])"), 8, {"takes 0"});
  expect_refused(one_tensor(R"("dtype":"U8","shape":[4],"data_offsets":[4,0])"), 8,
                 {"'t'", "before they begin"});
  expect_refused(one_tensor(R"("dtype":"U8","shape":[4],"data_offsets":[5,9])"), 8,
                 {"'t'", "byte 9 of 8"});
  expect_refused(one_tensor(R"("dtype":"U8","shape":[1],"data_offsets":[18446744073709551614,)"
                            R"(18446744073709551615])"),
                 8, {"'t'", "of 8"});
  expect_refused(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[4,8]},)"
                 R"("b":{"dtype":"U8","shape":[5],"data_offsets":[0,5]}})",
                 8, {"'a'", "'b'", "overlap"});
  expect_refused(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},)"
                 R"("b":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})",
                 8, {"'a'", "'b'", "overlap"});
}

TEST(Safetensors, RefusesBytesBehindTheLastTensor) {
  const std::string header = R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[4,8]},)"
                             R"("b":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})";
  EXPECT_EQ(parse(header, 8).tensors.size(), 2u);
  expect_refused(header, 9,
                 {"1 bytes follow the last tensor", std::to_string(8 + header.size() + 8)});
  expect_refused("{}", 1, {"1 bytes follow"});
}

TEST(Safetensors, RefusesProductsThatOverflow) {
  for (const char* shape : {"[4294967296,4294967296]", "[9223372036854775807,2]",
                            "[4611686018427387904]", "[65536,65536,65536,65536,2]"}) {
    expect_refused(
        one_tensor(std::string(R"("dtype":"F32","shape":)") + shape + R"(,"data_offsets":[0,0])"),
        8, {"'t'", "64 bits"});
  }
  // With a 0 among them there is nothing to count.
  EXPECT_EQ(parse(one_tensor(R"("dtype":"F32","shape":[9223372036854775807,4,0],)"
                             R"("data_offsets":[0,0])"),
                  0)
                .tensors.size(),
            1u);
  expect_refused(one_tensor(R"("dtype":"U8","shape":[18446744073709551615],"data_offsets":[0,0])"),
                 8, {"'t'", "dimension"});
  std::string ones = "1";
  for (int i = 0; i < 40; ++i) ones += ",1";
  expect_refused(one_tensor(R"("dtype":"U8","shape":[)" + ones + R"(],"data_offsets":[0,1])"), 1,
                 {"more than 32 dimensions"});
}

TEST(Safetensors, RefusesFieldsOfTheWrongKind) {
  const std::string shape = R"("shape":[1],)";
  const std::string offsets = R"("data_offsets":[0,1],)";
  const std::string dtype = R"("dtype":"U8",)";
  const auto with = [](std::string fields, const std::string& last) { return fields + last; };
  const std::vector<std::pair<std::string, std::string>> cases = {
      {with(shape + dtype, R"("data_offsets":[-1,0])"), "negative"},
      {with(shape + dtype, R"("data_offsets":[0,1.5])"), "fraction"},
      {with(shape + dtype, R"("data_offsets":[0,1e0])"), "fraction"},
      {with(shape + dtype, R"("data_offsets":[0])"), "two numbers"},
      {with(shape + dtype, R"("data_offsets":[0,1,2])"), "two numbers"},
      {with(shape + dtype, R"("data_offsets":["0","1"])"), "a string in data_offsets"},
      {with(shape + dtype, R"("data_offsets":[[0,1]])"), "a list in data_offsets"},
      {with(shape + dtype, R"("data_offsets":null)"), "null in data_offsets"},
      {with(shape + dtype, R"("data_offsets":{"0":1})"), "an object in data_offsets"},
      {with(offsets + dtype, R"("shape":[-1])"), "negative"},
      {with(offsets + dtype, R"("shape":[1.0])"), "fraction"},
      {with(offsets + dtype, R"("shape":1)"), "a number in shape"},
      {with(offsets + dtype, R"("shape":[true])"), "true or false in shape"},
      {with(offsets + shape, R"("dtype":7)"), "dtype is a number"},
      {with(offsets + shape, R"("dtype":["U8"])"), "dtype is a list"},
      {with(offsets + shape, R"("dtype":"u8")"), "unknown dtype 'u8'"},
      {with(offsets, R"("shape":[1])"), "needs 'dtype'"},
      {with(offsets, R"("dtype":"U8")"), "needs 'dtype'"},
      {with(shape, R"("dtype":"U8")"), "needs 'dtype'"},
      {"", "needs 'dtype'"},
      {with(shape + offsets + dtype, R"("shape":[1])"), "'shape' is given twice"},
      {with(shape + offsets + dtype, R"("dtype":"U8")"), "'dtype' is given twice"},
  };
  for (const auto& [fields, reason] : cases) {
    expect_refused(one_tensor(fields), 8, {"tensor 't'", reason});
  }
  expect_refused(R"({"t":[1]})", 8, {"'t'", "a list where an object is expected"});
  expect_refused(R"({"t":"x"})", 8, {"'t'", "a string where an object"});
  expect_refused("[]", 8, {"the header is a list"});
  expect_refused("7", 8, {"the header is a number"});
  expect_refused("\"x\"", 8, {"the header is a string"});
}

TEST(Safetensors, RefusesNamesGivenTwice) {
  const std::string entry = R"({"dtype":"U8","shape":[1],"data_offsets":[)";
  expect_refused(R"({"a":)" + entry + R"(0,1]},"b":)" + entry + R"(1,2]},"a":)" + entry + "2,3]}}",
                 8, {"tensor 'a' is given twice"});
  expect_refused(R"({"__metadata__":{},"__metadata__":{}})", 8, {"'__metadata__' is given twice"});
}

TEST(Safetensors, RefusesBombsAndNoise) {
  std::string bomb = R"({"__metadata__":)";
  for (int i = 0; i < 1'000'000; ++i) bomb += "[";
  expect_refused(bomb, 0, {"nested levels"});
  expect_refused(std::string(1'000'000, '{'), 0, {"1:2"});
  expect_refused(std::string(1000, '\xff'), 0, {"1:1"});
  expect_refused(std::string(1000, '\0'), 0, {"zero byte"});
  expect_refused("{\"\xff\":{}}", 0, {"UTF-8"});
  expect_refused(R"({"t":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}} more)", 1,
                 {"expected end of input"});
  expect_refused(R"({"t":{"dtype":"U8","shape":[1],"data_offsets":[0,1]})", 1,
                 {"unexpected end of input"});
}

TEST(Safetensors, RefusesAHeaderLongerThanItsFile) {
  expect_contains(error_of([] { parse_safetensors_header("{}", 9, "a.safetensors"); }),
                  {"a.safetensors"});
  expect_contains(error_of([] { parse_safetensors_header("{}", 3, "a.safetensors"); }),
                  {"a.safetensors"});
}

}  // namespace
}  // namespace fathom
