// A dense model's layers in 8 and 4 bits: made while loading or by quantising the folder, the same
// bits; on every set of kernels; and near the original.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <optional>

#include "base/error.h"
#include "checkpoint/quantise.h"
#include "fathom/model.h"
#include "kernels/dispatch.h"
#include "tests/paths.h"
#include "tests/temporary_folder.h"

namespace fathom {
namespace {

std::string golden(const std::string& name) { return test_paths::golden() + "/" + name; }

LoadOptions options_of(const std::string& folder, WeightPrecision weights) {
  LoadOptions options;
  options.folder = folder;
  options.weights = weights;
  options.threads = 2;
  return options;
}

std::vector<float> logits_of(const LoadOptions& options) {
  Model model = Model::load(options);
  ForwardInput input;
  for (int32_t i = 0; i < 20; ++i) input.ids.push_back((i * 37 + i * i * 11) % 61);
  return model.forward(input).logits;
}

void expect_same(const std::vector<float>& a, const std::vector<float>& b) {
  ASSERT_EQ(a.size(), b.size());
  EXPECT_EQ(std::memcmp(a.data(), b.data(), a.size() * sizeof(float)), 0);
}

// Root mean square of the difference, as part of that of `a`.
double distance(const std::vector<float>& a, const std::vector<float>& b) {
  double off = 0;
  double size = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    off += std::pow(double{a[i]} - b[i], 2);
    size += std::pow(double{a[i]}, 2);
  }
  return std::sqrt(off / size);
}

class DenseWeightsThreads : public testing::TestWithParam<const char*> {};

TEST_P(DenseWeightsThreads, LoadedOrQuantisedSameBits) {
  const std::string original = golden(GetParam());
  const std::vector<float> exact = logits_of(options_of(original, WeightPrecision::native));
  double last = 0;
  for (const auto& [weights, bits] :
       {std::pair(WeightPrecision::int8, 8), std::pair(WeightPrecision::int4, 4)}) {
    LoadOptions reference = options_of(original, weights);
    reference.kernels = "reference";
    reference.threads = 1;
    const std::vector<float> expected = logits_of(reference);
    const TemporaryFolder place;
    QuantiseOptions options;
    options.folder = original;
    options.out_folder = place / "copy";
    options.bits = bits;
    quantise_checkpoint(options);
    for (const KernelSet* set : available_kernels()) {
      LoadOptions made = options_of(original, weights);
      made.kernels = set->name;
      expect_same(expected, logits_of(made));
    }
    expect_same(expected, logits_of(options_of(options.out_folder, WeightPrecision::native)));
    expect_same(expected, logits_of(options_of(options.out_folder, weights)));
    const double off = distance(exact, expected);
    EXPECT_GT(off, last) << bits;
    last = off;
    EXPECT_LT(off, bits == 8 ? 0.1 : 0.8);
  }
}

INSTANTIATE_TEST_SUITE_P(Golden, DenseWeightsThreads,
                         testing::Values("qwen2-tiny", "qwen2-tied", "llama3-tiny"),
                         [](const auto& info) {
                           std::string name = info.param;
                           name[name.find('-')] = '_';
                           return name;
                         });

std::string refusal(const LoadOptions& options) {
  try {
    Model::load(options);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(DenseWeights, MessagesNameWhatIsWrong) {
  const TemporaryFolder place;
  QuantiseOptions options;
  options.folder = golden("qwen2-tiny");
  options.out_folder = place / "copy";
  options.bits = 4;
  quantise_checkpoint(options);
  EXPECT_NE(refusal(options_of(options.out_folder, WeightPrecision::int8)).find("4 bits already"),
            std::string::npos);
  EXPECT_NE(refusal(options_of(golden("r1-tiny"), WeightPrecision::int8)).find("--weights"),
            std::string::npos);
}

}  // namespace
}  // namespace fathom
