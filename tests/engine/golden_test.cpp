// Outputs of the official implementation on small random checkpoints in the released layout.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/json.h"
#include "base/npy.h"
#include "fathom/model.h"
#include "tests/paths.h"

namespace fathom {
namespace {

constexpr float kTolerance = 2e-4f;

std::string path_of(const std::string& rest) { return test_paths::golden() + "/" + rest; }

std::vector<int32_t> ids_of(const std::string& path) {
  const nlohmann::json file = parse_json(read_text(path), path);
  return (file.is_array() ? file : file.at("input_ids")).get<std::vector<int32_t>>();
}

float largest_difference(const std::vector<float>& ours, const std::vector<float>& theirs) {
  EXPECT_EQ(ours.size(), theirs.size());
  float largest = 0;
  for (size_t i = 0; i < std::min(ours.size(), theirs.size()); ++i) {
    const float difference = std::abs(ours[i] - theirs[i]);
    if (!(difference <= largest)) largest = difference;  // NaN counts as the largest
  }
  return largest;
}

class Golden : public testing::TestWithParam<const char*> {
 protected:
  std::string file(const std::string& name) const { return path_of(GetParam()) + "/" + name; }
  bool has_mtp() const { return std::string(GetParam()) != "r1-no-qlora-linear"; }
  Model load(KvPrecision kv, const std::string& kernels = "") const {
    LoadOptions options;
    options.folder = path_of(GetParam());
    options.kv = kv;
    options.kernels = kernels;
    options.threads = 2;
    options.mtp = has_mtp();
    return Model::load(options);
  }
};

TEST_P(Golden, LogitsHiddenStatesAndMtpWithF32Cache) {
  Model model = load(KvPrecision::f32);
  ForwardInput input;
  input.ids = ids_of(file("golden.json"));
  input.hidden_states = true;
  input.mtp_logits = has_mtp();
  const ForwardOutput output = model.forward(input);
  EXPECT_LT(largest_difference(output.logits, read_npy(file("golden_logits.npy")).values),
            kTolerance);
  EXPECT_LT(largest_difference(output.hidden_states, read_npy(file("golden_hidden.npy")).values),
            kTolerance);
  if (has_mtp()) {
    EXPECT_LT(largest_difference(output.mtp_logits, read_npy(file("golden_mtp_logits.npy")).values),
              kTolerance);
  }
}

TEST_P(Golden, GreedyIdsWithF32Cache) {
  Model model = load(KvPrecision::f32);
  const std::vector<int32_t> ids = ids_of(file("golden_greedy.json"));
  GenerateRequest request;
  request.prompt.ids.assign(ids.begin(), ids.begin() + 12);
  request.sampling.temperature = 0;
  request.max_tokens = 24;
  request.ignore_eos = true;
  EXPECT_EQ(model.generate(request).ids, std::vector<int32_t>(ids.begin() + 12, ids.end()));
}

TEST_P(Golden, Bf16CacheKeepsTheArgmaxWhereItIsClear) {
  Model model = load(KvPrecision::bf16);
  ForwardInput input;
  input.ids = ids_of(file("golden.json"));
  const ForwardOutput output = model.forward(input);
  const std::vector<float> golden = read_npy(file("golden_logits.npy")).values;
  int clear = 0;
  for (int64_t row = 0; row < output.rows; ++row) {
    const auto begin = golden.begin() + row * output.vocab;
    const auto best = std::max_element(begin, begin + output.vocab);
    float second = -INFINITY;
    for (auto it = begin; it != begin + output.vocab; ++it) {
      if (it != best) second = std::max(second, *it);
    }
    if (*best - second <= 0.1f) continue;
    ++clear;
    const auto ours = output.logits.begin() + row * output.vocab;
    EXPECT_EQ(std::max_element(ours, ours + output.vocab) - ours, best - begin) << row;
  }
  EXPECT_GT(clear, 10);
}

INSTANTIATE_TEST_SUITE_P(Checkpoints, Golden,
                         testing::Values("r1-tiny", "r1-yarn-short", "r1-no-qlora-linear"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST(GoldenPositions, LogitsFarOut) {
  LoadOptions options;
  options.folder = path_of("r1-tiny");
  options.kv = KvPrecision::f32;
  Model model = Model::load(options);
  ForwardInput input;
  input.ids = ids_of(path_of("r1-tiny/golden.json"));
  for (size_t i = 0; i < input.ids.size(); ++i) {
    input.positions.push_back(160000 + static_cast<int64_t>(i));
  }
  EXPECT_LT(largest_difference(model.forward(input).logits,
                               read_npy(path_of("r1-tiny/golden_logits_at_160000.npy")).values),
            kTolerance);
}

}  // namespace
}  // namespace fathom
