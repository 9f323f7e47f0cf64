// Routed experts in 4, 3 and 2 bits: the same bits from memory and from disk, on every set of
// kernels, and near the original.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "checkpoint/quantise.h"
#include "fathom/model.h"
#include "kernels/dispatch.h"
#include "tests/paths.h"
#include "tests/temporary_folder.h"

namespace fathom {
namespace {

ForwardOutput outputs(const std::string& folder, ExpertsPlace place, const std::string& kernels,
                      int threads) {
  LoadOptions options;
  options.folder = folder;
  options.experts = place;
  options.kernels = kernels;
  options.threads = threads;
  options.cache_slots = place == ExpertsPlace::disk ? 3 : 0;
  Model model = Model::load(options);
  ForwardInput input;
  for (int32_t i = 0; i < 40; ++i) input.ids.push_back((i * 37 + i * i * 11) % 263);
  return model.forward(input);
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

TEST(QuantisedExpertsThreads, SameBitsEverywhereAndNearTheOriginal) {
  const std::string original = test_paths::golden() + "/r1-tiny";
  const ForwardOutput exact = outputs(original, ExpertsPlace::memory, "", 2);
  double last = 0;
  for (const int bits : {4, 3, 2}) {
    const TemporaryFolder place;
    const std::string copy = place / "copy";
    QuantiseOptions options;
    options.folder = original;
    options.out_folder = copy;
    options.bits = bits;
    quantise_checkpoint(options);
    const ForwardOutput expected = outputs(copy, ExpertsPlace::memory, "reference", 1);
    for (const KernelSet* set : available_kernels()) {
      for (const ExpertsPlace where : {ExpertsPlace::memory, ExpertsPlace::disk}) {
        const ForwardOutput got = outputs(copy, where, set->name, 2);
        ASSERT_EQ(got.logits.size(), expected.logits.size());
        EXPECT_EQ(std::memcmp(got.logits.data(), expected.logits.data(),
                              got.logits.size() * sizeof(float)),
                  0)
            << bits << " " << set->name;
      }
    }
    const double off = distance(exact.logits, expected.logits);
    EXPECT_GT(off, last) << bits;  // fewer bits, farther away
    last = off;
  }
  EXPECT_LT(last, 0.8);
}

}  // namespace
}  // namespace fathom
