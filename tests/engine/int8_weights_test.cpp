// Head and embedding in 8 bits: what they are, how near they are, and the same bits everywhere.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/deepseek_tensors.h"
#include "checkpoint/synth.h"
#include "experts/weight_loader.h"
#include "fathom/model.h"
#include "kernels/dispatch.h"
#include "kernels/linear/linear.h"
#include "numerics/int8_row.h"
#include "tests/paths.h"
#include "tests/temporary_folder.h"

namespace fathom {
namespace {

constexpr int32_t kTokens = 70;
constexpr int64_t kVocab = 263;

// Its MTP layer has a head and an embedding of its own.
LoadOptions tiny(WeightPrecision head, WeightPrecision embed) {
  LoadOptions options;
  options.folder = test_paths::golden() + "/r1-tiny";
  options.mtp = true;
  options.threads = 2;
  options.head = head;
  options.embed = embed;
  return options;
}
constexpr WeightPrecision native = WeightPrecision::native;
constexpr WeightPrecision int8 = WeightPrecision::int8;

ForwardInput some_tokens() {
  ForwardInput input;
  for (int32_t i = 0; i < kTokens; ++i) input.ids.push_back((i * 37 + i * i * 11) % kVocab);
  input.mtp_logits = true;
  input.hidden_states = true;
  return input;
}

ForwardOutput outputs(const LoadOptions& options) {
  Model model = Model::load(options);
  return model.forward(some_tokens());
}

bool same(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

// A stored matrix of the vocabulary, quantised row by row.
struct Quantised {
  Quantised(const std::string& folder, const std::string& name) {
    const Checkpoint checkpoint = Checkpoint::open(folder);
    const TensorInfo& tensor = *checkpoint.find(name);
    std::vector<std::byte> stored(tensor.bytes);
    checkpoint.read(tensor, 0, stored);
    cols = tensor.shape.at(1);
    values.resize(static_cast<size_t>(kVocab * cols));
    widen(tensor.dtype, stored.data(), kVocab * cols, values.data());
    bytes.resize(values.size());
    for (int64_t r = 0; r < kVocab; ++r) {
      scales.push_back(quantise_int8_row(values.data() + r * cols, cols, bytes.data() + r * cols));
    }
  }
  WeightView view() const {
    return WeightView::int8_rows(kVocab, cols, bytes.data(),
                                 reinterpret_cast<const std::byte*>(scales.data()));
  }
  int64_t cols = 0;
  std::vector<float> values;
  std::vector<std::byte> bytes;
  std::vector<float> scales;
};

TEST(Int8Weights, TheHeadIsTheQuantisedOneAndNearTheStoredOne) {
  const LoadOptions options = tiny(int8, native);
  const ForwardOutput stored = outputs(tiny(native, native));
  const ForwardOutput got = outputs(options);
  // Nothing before the head changes.
  ASSERT_TRUE(same(got.hidden_states, stored.hidden_states));
  EXPECT_FALSE(same(got.logits, stored.logits));
  EXPECT_FALSE(same(got.mtp_logits, stored.mtp_logits));

  const Quantised head(options.folder, std::string(names::kHead));
  const float* normed = got.hidden_states.data() + got.layers * kTokens * got.hidden;
  std::vector<float> want(got.logits.size());
  const Buffer scratch(KernelContext::kScratchBytes);
  linear_reference.run(
      {{normed, kTokens, head.cols}, head.view(), {want.data(), kTokens, kVocab}, scratch.data()});
  EXPECT_TRUE(same(got.logits, want));
  for (int64_t i = 0; i < kTokens; ++i) {
    double length = 0;
    for (int64_t k = 0; k < head.cols; ++k) length += std::fabs(normed[i * head.cols + k]);
    for (int64_t v = 0; v < kVocab; ++v) {
      // Each weight is off by half a step at most; a little more for the roundings of the sums.
      const double step = head.scales[static_cast<size_t>(v)];
      const auto at = static_cast<size_t>(i * kVocab + v);
      ASSERT_NEAR(got.logits[at], stored.logits[at], 0.51 * step * length) << i << " " << v;
    }
  }
}

TEST(Int8Weights, TheMtpLayersOwnHeadFollows) {
  const ForwardOutput stored = outputs(tiny(native, native));
  const ForwardOutput got = outputs(tiny(int8, native));
  ASSERT_EQ(got.mtp_logits.size(), stored.mtp_logits.size());
  const Quantised own(tiny(int8, native).folder, names::layer(3, "shared_head.head.weight"));
  double largest = 0;
  for (const float scale : own.scales) largest = std::max<double>(largest, scale);
  double most = 0;
  for (size_t i = 0; i < got.mtp_logits.size(); ++i) {
    most = std::max<double>(most, std::fabs(got.mtp_logits[i] - stored.mtp_logits[i]));
  }
  EXPECT_GT(most, 0);
  // Normed values are about 1 in size: an error of half a step each, all the same way, is more
  // than comes about.
  EXPECT_LT(most, 0.5 * largest * static_cast<double>(own.cols));
}

TEST(Int8Weights, TheEmbeddingIsTheQuantisedOne) {
  const LoadOptions options = tiny(native, int8);
  const ForwardOutput got = outputs(options);
  const ForwardInput input = some_tokens();
  const Quantised table(options.folder, std::string(names::kEmbedding));
  std::vector<float> row(static_cast<size_t>(table.cols));
  for (int64_t i = 0; i < kTokens; ++i) {
    const int64_t id = input.ids[static_cast<size_t>(i)];
    widen_int8_row(table.bytes.data() + id * table.cols, table.scales[static_cast<size_t>(id)],
                   table.cols, row.data());
    ASSERT_EQ(std::memcmp(got.hidden_states.data() + i * table.cols, row.data(),
                          row.size() * sizeof(float)),
              0)
        << "token " << i;
  }
}

void expect_same(const LoadOptions& options, const ForwardOutput& want) {
  SCOPED_TRACE(options.kernels + ", " + std::to_string(options.threads) + " threads");
  const ForwardOutput got = outputs(options);
  EXPECT_TRUE(same(got.logits, want.logits));
  EXPECT_TRUE(same(got.mtp_logits, want.mtp_logits));
  EXPECT_TRUE(same(got.hidden_states, want.hidden_states));
}

TEST(Int8WeightsThreads, TheSameBitsForKernelsThreadsAndPlaces) {
  for (const auto& [head, embed] :
       {std::pair{int8, native}, std::pair{native, int8}, std::pair{int8, int8}}) {
    LoadOptions options = tiny(head, embed);
    options.kernels = "reference";
    options.threads = 1;
    const ForwardOutput want = outputs(options);
    for (const ExpertsPlace place : {ExpertsPlace::memory, ExpertsPlace::disk}) {
      options.experts = place;
      options.cache_slots = 3;
      options.kernels = best_kernels().name;
      options.threads = 2;
      expect_same(options, want);
      if (head == native || embed == native) continue;
      for (const KernelSet* kernels : available_kernels()) {
        options.kernels = kernels->name;
        options.threads = 3;
        expect_same(options, want);
      }
    }
  }
}

TEST(Int8Weights, DraftsChangeNoToken) {
  GenerateRequest request;
  request.prompt.ids = some_tokens().ids;
  request.sampling.temperature = 0.8;
  request.sampling.seed = 3;
  request.max_tokens = 12;
  request.ignore_eos = true;
  LoadOptions options = tiny(int8, int8);
  Model plain = Model::load(options);
  options.speculation = Speculation::on;
  Model drafting = Model::load(options);
  EXPECT_EQ(plain.generate(request).ids, drafting.generate(request).ids);
}

uint64_t share(const ModelInfo& info, const std::string& name) {
  for (const MemoryShare& share : info.memory) {
    if (share.name == name) return share.bytes;
  }
  return 0;
}

TEST(Int8Weights, TheModelSaysSo) {
  const Model model = Model::load(tiny(int8, int8));
  EXPECT_EQ(model.info().head, int8);
  EXPECT_EQ(model.info().embed, int8);
  // The main ones and the MTP layer's.
  EXPECT_EQ(share(model.info(), "head (int8)"), 2u * kVocab * (160 + 4));
  EXPECT_EQ(share(model.info(), "embedding (int8)"), 2u * kVocab * (160 + 4));
  const Model stored = Model::load(tiny(native, native));
  EXPECT_EQ(stored.info().head, native);
  EXPECT_EQ(stored.info().embed, native);
  EXPECT_EQ(share(stored.info(), "head"), 2u * kVocab * 160 * 2);
}

TEST(Int8Weights, ATiedHeadIsOneTensor) {
  const TemporaryFolder folder;
  nlohmann::json config =
      nlohmann::json::parse(read_text(test_paths::golden() + "/r1-tiny/config.json", 1 << 20));
  config["tie_word_embeddings"] = true;
  config["num_nextn_predict_layers"] = 0;
  std::ofstream(folder / "source.json") << config.dump();
  SynthOptions synth;
  synth.config_path = folder / "source.json";
  synth.out_folder = folder / "model";
  synth.seed = 4;
  synthesise_checkpoint(synth, 1);

  LoadOptions options = tiny(int8, int8);
  options.folder = synth.out_folder;
  options.mtp = false;
  Model model = Model::load(options);
  EXPECT_EQ(share(model.info(), "head (int8)"), 1u * kVocab * (160 + 4));
  EXPECT_EQ(share(model.info(), "embedding (int8)"), 0u);
  ForwardInput input = some_tokens();
  input.mtp_logits = false;
  const ForwardOutput got = model.forward(input);
  const Quantised table(options.folder, std::string(names::kEmbedding));
  std::vector<float> row(160);
  widen_int8_row(table.bytes.data() + input.ids[1] * 160,
                 table.scales[static_cast<size_t>(input.ids[1])], 160, row.data());
  EXPECT_EQ(std::memcmp(got.hidden_states.data() + 160, row.data(), 160 * sizeof(float)), 0);

  for (const auto& [head, embed] : {std::pair{int8, native}, std::pair{native, int8}}) {
    options.head = head;
    options.embed = embed;
    try {
      Model::load(options);
      ADD_FAILURE() << "was accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::usage);
      EXPECT_NE(std::string(error.what()).find("one tensor"), std::string::npos) << error.what();
    }
  }
}

}  // namespace
}  // namespace fathom
