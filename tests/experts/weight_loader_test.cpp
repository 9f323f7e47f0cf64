// Matrices that are made 8 bits as they land.
#include "experts/weight_loader.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "numerics/half.h"
#include "numerics/int8_row.h"
#include "tests/checkpoint/toy.h"

namespace fathom {
namespace {

// `values` as a tensor of a float format; they become what is stored.
ToyTensor stored(const std::string& name, const std::string& dtype, int64_t rows, int64_t cols,
                 std::vector<float>* values) {
  ToyTensor tensor{name, dtype, {rows, cols}, ""};
  for (float& value : *values) {
    if (dtype == "F32") {
      tensor.bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
      continue;
    }
    const uint16_t bits = dtype == "BF16" ? float_to_bf16(value) : float_to_fp16(value);
    value = dtype == "BF16" ? bf16_to_float(bits) : fp16_to_float(bits);
    tensor.bytes.append(reinterpret_cast<const char*>(&bits), sizeof bits);
  }
  return tensor;
}

std::vector<float> random_values(int64_t rows, int64_t cols, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<float> values(static_cast<size_t>(rows * cols));
  for (size_t i = 0; i < values.size(); ++i) {
    const int64_t row = static_cast<int64_t>(i) / cols;
    const float unit = static_cast<float>(random() >> 8) * 0x1p-23f - 1.0f;
    values[i] = row % 5 == 3 ? 0.0f : std::ldexp(unit, static_cast<int>(row % 7) - 6);
  }
  return values;
}

// What lies in memory is what quantising each stored row gives.
void expect_quantised(const WeightView& view, WeightFormat format,
                      const std::vector<float>& values) {
  ASSERT_EQ(view.format, format);
  std::vector<std::byte> row(static_cast<size_t>(view.row_bytes()));
  std::vector<std::byte> scales(static_cast<size_t>(view.row_scale_bytes()));
  for (int64_t r = 0; r < view.rows; ++r) {
    const float* from = values.data() + r * view.cols;
    if (format == WeightFormat::int8_row) {
      const float scale = quantise_int8_row(from, view.cols, row.data());
      std::memcpy(scales.data(), &scale, sizeof scale);
    } else {
      quantise_levels_row(from, view.cols, level_bits(format), row.data(), scales.data());
    }
    ASSERT_EQ(std::memcmp(view.data + r * view.row_bytes(), row.data(), row.size()), 0) << r;
    ASSERT_EQ(std::memcmp(view.scale + r * view.row_scale_bytes(), scales.data(), scales.size()), 0)
        << r;
  }
}

TEST(WeightLoaderThreads, QuantisesRowsAsTheyLand) {
  struct Case {
    const char* dtype;
    int64_t rows, cols;
  };
  // The large ones come in several reads, whose ends lie between rows; the very wide one has a row
  // in each.
  for (const auto& [dtype, rows, cols] :
       {Case{"BF16", 1, 1}, Case{"F16", 7, 3}, Case{"BF16", 1500, 3001}, Case{"F32", 700, 2003},
        Case{"F16", 900, 3333}, Case{"BF16", 3, 2'000'001}}) {
    SCOPED_TRACE(std::string(dtype) + " " + std::to_string(rows) + " x " + std::to_string(cols));
    const TemporaryFolder folder;
    std::vector<float> values = random_values(rows, cols, 1);
    std::vector<float> others = random_values(20, 77, 2);
    write_file(folder / "model.safetensors",
               safetensors_of({toy("odd", "xyz"), stored("before", "F16", 20, 77, &others),
                               stored("matrix", dtype, rows, cols, &values),
                               stored("after", "F16", 20, 77, &others)}));
    const Checkpoint checkpoint = Checkpoint::open(folder.path());
    for (const int threads : {1, 3}) {
      ThreadPool pool(threads);
      WeightLoader loader(checkpoint, 128, 128);
      const WeightView after = loader.matrix("after");
      const WeightView view = loader.quantised_matrix("matrix");
      const WeightView levels = loader.quantised_matrix("matrix", WeightFormat::int4);
      const WeightView before = loader.quantised_matrix("before");
      loader.load(pool, "loading", nullptr);
      expect_quantised(view, WeightFormat::int8_row, values);
      expect_quantised(levels, WeightFormat::int4, values);
      expect_quantised(before, WeightFormat::int8_row, others);
      ASSERT_EQ(after.format, WeightFormat::f16);
      for (size_t i = 0; i < others.size(); ++i) {
        uint16_t bits;
        std::memcpy(&bits, after.data + 2 * i, sizeof bits);
        ASSERT_EQ(fp16_to_float(bits), others[i]);
      }
    }
  }
}

TEST(WeightLoader, NamesWhatCannotBeQuantised) {
  const TemporaryFolder folder;
  std::vector<float> values = random_values(40, 50, 3);
  values[31 * 50 + 7] = std::nanf("");
  std::vector<float> wide = random_values(1, 3'000'000, 4);
  write_file(folder / "model.safetensors",
             safetensors_of({stored("matrix", "F32", 40, 50, &values),
                             stored("wide", "BF16", 1, 3'000'000, &wide),
                             {"bytes", "F8_E4M3", {2, 2}, std::string(4, '\0')}}));
  const Checkpoint checkpoint = Checkpoint::open(folder.path());
  ThreadPool pool(2);
  WeightLoader loader(checkpoint, 128, 128);
  EXPECT_NE(error_of([&] { loader.quantised_matrix("bytes"); }).find("tensor bytes"),
            std::string::npos);
  EXPECT_NE(error_of([&] { loader.quantised_matrix("wide"); }).find("tensor wide"),
            std::string::npos);
  WeightLoader other(checkpoint, 128, 128);
  other.quantised_matrix("matrix");
  const std::string message = error_of([&] { other.load(pool, "loading", nullptr); });
  EXPECT_NE(message.find("tensor matrix: element 1557 "), std::string::npos) << message;
}

}  // namespace
}  // namespace fathom
