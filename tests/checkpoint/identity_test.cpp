#include "checkpoint/identity.h"

#include <gtest/gtest.h>

#include <set>

#include "checkpoint/checkpoint.h"
#include "tests/checkpoint/toy.h"

namespace fathom {
namespace {

std::string of(const std::vector<std::vector<ToyTensor>>& files,
               const std::string& fields = "fields") {
  const TemporaryFolder folder;
  for (size_t i = 0; i < files.size(); ++i) {
    write_file(folder / ("part-" + std::to_string(i) + ".safetensors"), safetensors_of(files[i]));
  }
  return model_identity(Checkpoint::open(folder.path()), fields);
}

TEST(Identity, StaysWhenFilesAreMovedOrCutOtherwise) {
  const ToyTensor a = toy("layers.0.w", "AAAA"), b = toy("layers.1.w", "BBBB"), c = toy("n", "C");
  const std::string whole = of({{a, b, c}});
  EXPECT_EQ(whole.size(), 32u);
  EXPECT_EQ(whole.find_first_not_of("0123456789abcdef"), std::string::npos);
  EXPECT_EQ(of({{c, b, a}}), whole);
  EXPECT_EQ(of({{b}, {a, c}}), whole);
}

TEST(Identity, TellsApartWhatComputesDifferently) {
  const ToyTensor a = toy("layers.0.w", "AAAA"), n = toy("norm", "NNNN");
  ToyTensor other_shape = a;
  other_shape.shape = {2, 2};
  ToyTensor other_type = a;
  other_type.dtype = "I8";
  std::set<std::string> seen = {
      of({{a, n}}),
      of({{a, n}}, "other fields"),
      of({{a}}),
      of({{a, n, toy("more", "")}}),
      of({{toy("layers.1.w", "AAAA"), n}}),  // another name
      of({{other_shape, n}}),
      of({{other_type, n}}),
      of({{toy("layers.0.w", "AAAB"), n}}),  // a fine-tune
      of({{a, toy("norm", "NNNM")}}),
  };
  EXPECT_EQ(seen.size(), 9u);
}

TEST(Identity, SamplesOneTensorOfEachKindInTheMiddle) {
  std::string bytes(100000, 'x');
  const std::string plain = of({{toy("layers.7.w", bytes)}});
  bytes[50000] = 'y';
  EXPECT_NE(of({{toy("layers.7.w", bytes)}}), plain);
}

TEST(Identity, HeedsEveryFieldThatChangesTheComputation) {
  const DeepseekConfig plain;
  std::set<std::string> seen = {identity_fields(plain)};
  const auto differs = [&seen](const auto& change) {
    DeepseekConfig config;
    change(config);
    return seen.insert(identity_fields(config)).second;
  };
  EXPECT_TRUE(differs([](auto& c) { c.rope_theta = 10001; }));
  EXPECT_TRUE(differs([](auto& c) { c.rms_norm_eps = 1e-5; }));
  EXPECT_TRUE(differs([](auto& c) { c.routed_scaling_factor = 2.5; }));
  EXPECT_TRUE(differs([](auto& c) { c.rope_scaling.type = RopeType::yarn; }));
  EXPECT_TRUE(differs([](auto& c) { c.rope_scaling.mscale = 0.5; }));
  EXPECT_TRUE(differs([](auto& c) { c.q_lora_rank = 8; }));
  EXPECT_TRUE(differs([](auto& c) { c.norm_topk_prob = false; }));
  EXPECT_FALSE(differs([](auto& c) { c.ep_size = 8; })) << "how training was spread";
}

}  // namespace
}  // namespace fathom
