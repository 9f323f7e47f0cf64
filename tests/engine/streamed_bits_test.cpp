// The same tokens and logits wherever experts live and however they are read: a random model with
// 64 experts in 5 layers, from disk and from memory.
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/hash.h"
#include "checkpoint/synth.h"
#include "fathom/model.h"
#include "kernels/dispatch.h"
#include "tests/checkpoint/configs.h"
#include "tests/temporary_folder.h"

namespace fathom {
namespace {

constexpr uint64_t kExperts = 64 * 5;  // in 4 MoE layers and the MTP layer

// Made once for all tests of this program.
class RandomModel {
 public:
  RandomModel() {
    nlohmann::json config = released_config();
    config.update(nlohmann::json::parse(R"({
      "first_k_dense_replace": 1, "hidden_size": 96, "intermediate_size": 160, "kv_lora_rank": 32,
      "max_position_embeddings": 4096, "moe_intermediate_size": 48, "n_routed_experts": 64,
      "num_attention_heads": 4, "num_experts_per_tok": 6, "num_hidden_layers": 5,
      "num_key_value_heads": 4, "q_lora_rank": 40, "qk_nope_head_dim": 16, "qk_rope_head_dim": 8,
      "rope_scaling": null, "v_head_dim": 16, "vocab_size": 300})"));
    config["quantization_config"]["weight_block_size"] = {32, 32};
    SynthOptions options;
    options.config_path = place_ / "config.json";
    std::ofstream(options.config_path) << config;
    options.out_folder = folder();
    options.seed = 11;
    options.shards = 7;  // some experts straddle two files
    synthesise_checkpoint(options, 1);
  }
  std::string folder() const { return place_ / "model"; }

 private:
  TemporaryFolder place_;
};

const RandomModel& random_model() {
  static const RandomModel model;
  return model;
}

LoadOptions on_disk(uint64_t slots) {
  LoadOptions options;
  options.folder = random_model().folder();
  options.threads = 2;
  options.context = 512;
  options.experts = ExpertsPlace::disk;
  options.cache_slots = slots;
  return options;
}

std::vector<int32_t> some_ids(int32_t count, int32_t salt = 0) {
  std::vector<int32_t> ids;
  for (int32_t i = 0; i < count; ++i) ids.push_back((i * 37 + i * i * 11 + salt) % 300);
  return ids;
}

GenerateRequest request(int32_t prompt, int32_t salt, double temperature) {
  GenerateRequest request;
  request.prompt.ids = some_ids(prompt, salt);
  request.sampling.temperature = temperature;
  request.sampling.seed = 5;
  request.max_tokens = 10;
  request.ignore_eos = true;
  return request;
}

// What every circumstance must give.
struct Outcome {
  std::vector<float> logits;  // of a prompt of 70 tokens, all rows
  std::vector<int32_t> greedy;
  std::vector<int32_t> seeded;
};

Outcome outcome(const LoadOptions& options) {
  Model model = Model::load(options);
  Outcome outcome;
  ForwardInput input;
  input.ids = some_ids(70);
  outcome.logits = model.forward(input).logits;
  outcome.greedy = model.generate(request(70, 0, 0)).ids;
  outcome.seeded = model.generate(request(70, 0, 0.9)).ids;
  return outcome;
}

const Outcome& expected() {
  static const Outcome outcome_of_reference = [] {
    LoadOptions options = on_disk(0);
    options.experts = ExpertsPlace::memory;
    options.kernels = "reference";
    options.threads = 1;
    return outcome(options);
  }();
  return outcome_of_reference;
}

void expect_same(const LoadOptions& options) {
  const Outcome got = outcome(options);
  EXPECT_EQ(got.greedy, expected().greedy);
  EXPECT_EQ(got.seeded, expected().seeded);
  ASSERT_EQ(got.logits.size(), expected().logits.size());
  EXPECT_EQ(
      std::memcmp(got.logits.data(), expected().logits.data(), got.logits.size() * sizeof(float)),
      0);
}

TEST(StreamedBitsThreads, CacheOfAnySizeAndThreads) {
  for (const uint64_t slots : {uint64_t{2}, uint64_t{3}, kExperts / 2, kExperts}) {
    for (const int threads : {1, 2, 4}) {
      SCOPED_TRACE(std::to_string(slots) + " slots, " + std::to_string(threads) + " threads");
      LoadOptions options = on_disk(slots);
      options.threads = threads;
      expect_same(options);
    }
  }
}

TEST(StreamedBits, LookaheadPoliciesAndWaysOfReading) {
  for (const Lookahead lookahead : {Lookahead::on, Lookahead::off}) {
    for (const char* policy : {"forecast", "lru", "lfu", "layers"}) {
      SCOPED_TRACE(std::string(policy) + (lookahead == Lookahead::on ? ", lookahead" : ""));
      LoadOptions options = on_disk(20);
      options.lookahead = lookahead;
      options.cache_policy = policy;
      expect_same(options);
    }
  }
  for (const char* io : {"io_uring", "pread-direct", "pread"}) {
    SCOPED_TRACE(io);
    LoadOptions options = on_disk(9);
    options.io = io;
    try {
      expect_same(options);
    } catch (const Error& error) {
      // What a system refuses (a memory file system, a sandbox) must be refused by name.
      EXPECT_NE(std::string(error.what()).find(std::string("cannot read with ") + io),
                std::string::npos)
          << error.what();
    }
  }
}

TEST(StreamedBits, KernelsAndChunksOfThePrompt) {
  for (const KernelSet* kernels : available_kernels()) {
    SCOPED_TRACE(kernels->name);
    LoadOptions options = on_disk(30);
    options.kernels = kernels->name;
    expect_same(options);
  }
  for (const int64_t chunk : {1, 7, 64, 1000}) {
    SCOPED_TRACE("chunk " + std::to_string(chunk));
    LoadOptions options = on_disk(30);
    options.prefill_chunk = chunk;
    options.row_chunk = chunk;
    expect_same(options);
  }
}

TEST(StreamedBits, MergedWithOthersAndSpeculating) {
  for (const Speculation speculation : {Speculation::off, Speculation::on}) {
    SCOPED_TRACE(speculation == Speculation::on ? "drafts" : "no drafts");
    LoadOptions options = on_disk(25);
    options.sequences = 5;
    options.speculation = speculation;
    Model model = Model::load(options);
    EXPECT_EQ(model.generate(request(70, 0, 0)).ids, expected().greedy);
    EXPECT_EQ(model.generate(request(70, 0, 0.9)).ids, expected().seeded);
    const std::vector<GenerateRequest> requests = {request(3, 1, 0), request(70, 0, 0),
                                                   request(131, 2, 0.9), request(70, 0, 0.9),
                                                   request(64, 3, 0)};
    const std::vector<GenerateResult> results = model.generate(requests, 5);
    EXPECT_EQ(results[1].ids, expected().greedy);
    EXPECT_EQ(results[3].ids, expected().seeded);
  }
}

// The same on every processor and with every compiler: synthesis, arithmetic and sampling are part
// of it. A change of these numbers changes what everybody's models answer.
TEST(StreamedBits, StoredBits) {
  const Outcome& got = expected();
  ASSERT_EQ(got.logits.size(), size_t{70} * 300);
  EXPECT_EQ(hash64(std::as_bytes(std::span(got.logits))), 3839372701249977556u);
  EXPECT_EQ(got.greedy, (std::vector<int32_t>{62, 128, 178, 218, 148, 271, 218, 96, 108, 263}));
  EXPECT_EQ(got.seeded, (std::vector<int32_t>{255, 12, 160, 157, 276, 63, 283, 31, 107, 201}));
}

TEST(StreamedBits, SaysHowExpertsAreRead) {
  LoadOptions options = on_disk(40);
  options.io = "pread";
  EXPECT_EQ(Model::load(options).info().experts.find("disk: pread"), 0u);
  options.experts = ExpertsPlace::memory;
  EXPECT_EQ(Model::load(options).info().experts, "memory");
}

TEST(StreamedBits, TheCountersAddUp) {
  Model model = Model::load(on_disk(40));
  model.generate(request(70, 0, 0));
  const ModelStats stats = model.stats();
  EXPECT_EQ(stats.expert_slots, 40u);
  EXPECT_GT(stats.expert_misses, 0u);
  EXPECT_GT(stats.bytes_read, 0u);
  // A prompt asks each expert once for all its rows: at most all of them, then 9 tokens of 6 in
  // 4 layers.
  EXPECT_LE(stats.expert_hits + stats.expert_misses, 64u * 4 + 9 * 6 * 4);
  EXPECT_GT(stats.peak_memory, 0u);
}

}  // namespace
}  // namespace fathom
