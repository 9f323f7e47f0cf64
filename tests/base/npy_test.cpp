#include "base/npy.h"

#include <gtest/gtest.h>

#include <fstream>

#include "base/error.h"
#include "tests/paths.h"
#include "tests/temporary_folder.h"

namespace fathom {
namespace {

class Npy : public testing::Test {
 protected:
  void write(const std::string& bytes) { std::ofstream(path_, std::ios::binary) << bytes; }
  static std::string file_with(const std::string& dictionary, size_t payload) {
    std::string text("\x93NUMPY\x01\x00", 8);
    text += static_cast<char>(dictionary.size() & 0xff);
    text += static_cast<char>(dictionary.size() >> 8);
    return text + dictionary + std::string(payload, '\0');
  }
  void expect_refused(const std::string& bytes, const std::string& reason) {
    write(bytes);
    try {
      read_npy(path_);
      FAIL() << "accepted, though: " << reason;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::input);
      EXPECT_NE(std::string(error.what()).find(path_), std::string::npos) << error.what();
      EXPECT_NE(std::string(error.what()).find(reason), std::string::npos) << error.what();
    }
  }

  TemporaryFolder folder_;
  std::string path_ = folder_ / "a.npy";
};

TEST_F(Npy, ReadsBackWhatItWroteForAnyRank) {
  const std::vector<std::vector<int64_t>> shapes = {{}, {5}, {2, 3}, {2, 0, 4}, {3, 1, 2, 2}};
  for (const auto& shape : shapes) {
    size_t count = 1;
    for (const int64_t size : shape) count *= static_cast<size_t>(size);
    std::vector<float> values(count);
    for (size_t i = 0; i < count; ++i) values[i] = 0.5f - static_cast<float>(i) / 3;
    NpyWriter writer(path_, shape);
    const std::span<const float> all(values);
    writer.write(all.first(count / 2));
    writer.write(all.subspan(count / 2));
    writer.commit();
    const NpyArray array = read_npy(path_);
    EXPECT_EQ(array.shape, shape);
    EXPECT_EQ(array.values, values);
  }
}

TEST_F(Npy, WritesTheFormatsOwnHeader) {
  NpyWriter writer(path_, {7});
  writer.write(std::vector<float>(7, 1.0f));
  writer.commit();
  std::ifstream file(path_, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(file)), {});
  ASSERT_EQ(bytes.size(), 128u + 28u);  // values begin on a multiple of 64
  EXPECT_EQ(bytes.substr(0, 10), std::string("\x93NUMPY\x01\x00\x76\x00", 10));
  EXPECT_EQ(bytes.substr(10, 58), "{'descr': '<f4', 'fortran_order': False, 'shape': (7,), } ");
  EXPECT_EQ(bytes[127], '\n');
}

TEST_F(Npy, LeavesNothingWithoutCommit) {
  {
    NpyWriter writer(path_, {4});
    writer.write(std::vector<float>(3));
    EXPECT_THROW(writer.commit(), Error);
    EXPECT_THROW(writer.write(std::vector<float>(2)), Error);
  }
  EXPECT_EQ(folder_.count(), 0);
}

TEST_F(Npy, RefusesWhatItCannotRead) {
  const std::string good = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }\n";
  write(file_with(good, 24));
  EXPECT_EQ(read_npy(path_).shape, (std::vector<int64_t>{2, 3}));

  expect_refused("", "too short");
  expect_refused("PK\x03\x04 something else", "not a .npy file");
  expect_refused(file_with(good, 23), "23 bytes follow");
  expect_refused(file_with(good, 25), "25 bytes follow");
  expect_refused(file_with(good, 0).substr(0, 30), "cut short");
  expect_refused(file_with("{'descr': '<f8', 'fortran_order': False, 'shape': (1,), }", 8), "<f8");
  expect_refused(file_with("{'descr': '<f4', 'fortran_order': True, 'shape': (1,), }", 4),
                 "C order");
  for (const char* damaged :
       {"", "{", "{'descr': '<f4'}", "{'descr': '<f4', 'fortran_order': False, 'shape': (2, -3), }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2 3), }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (6), } more",
        "{'descr': '<f4', 'fortran_order': False, 'size': (6,), }"}) {
    expect_refused(file_with(damaged, 24), "damaged");
  }
  expect_refused(file_with("{'descr': '<f4', 'fortran_order': False, "
                           "'shape': (4294967296, 4294967296, 4), }",
                           24),
                 "impossible");
}

TEST_F(Npy, ReadsFilesOfNumpyItself) {
  const NpyArray logits = read_npy(test_paths::golden() + "/r1-tiny/golden_logits.npy");
  ASSERT_EQ(logits.shape.size(), 2u);
  EXPECT_EQ(logits.shape[1], 263);
}

}  // namespace
}  // namespace fathom
