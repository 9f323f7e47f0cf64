// Dividing memory before anything is loaded.
#include "engine/memory_plan.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include "fathom/error.h"

namespace fathom {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr uint64_t kGiB = uint64_t{1} << 30;

// DeepSeek-R1 as its headers describe it.
struct Released {
  DeepseekConfig config;
  MemoryNeeds needs;

  Released() {
    config.vocab_size = 129280;
    config.hidden_size = 7168;
    config.num_hidden_layers = 61;
    config.first_k_dense_replace = 3;
    config.intermediate_size = 18432;
    config.moe_intermediate_size = 2048;
    config.n_routed_experts = 256;
    config.n_shared_experts = 1;
    config.num_experts_per_tok = 8;
    config.num_attention_heads = 128;
    config.q_lora_rank = 1536;
    config.kv_lora_rank = 512;
    config.qk_nope_head_dim = 128;
    config.qk_rope_head_dim = 64;
    config.v_head_dim = 128;
    const auto set = [this](Part part, uint64_t bytes) {
      needs.footprint.main[static_cast<size_t>(part)] = bytes;
    };
    set(Part::embedding, 1'853'358'080);
    set(Part::head, 1'853'358'080);
    set(Part::attention, 11'413'000'000);
    set(Part::dense_mlp, 1'189'000'000);
    set(Part::shared_experts, 2'554'000'000);
    set(Part::router, 213'000'000);
    set(Part::norms, 2'000'000);
    set(Part::routed_experts, 58 * 256 * uint64_t{44'050'944});
    needs.shape = memory_shape_of(config);
    needs.slot_bytes = 44'060'672;
    needs.experts = 58 * 256;
    needs.kv_bytes_per_token = 61 * 1152;
    needs.context = 4096;
    needs.row_chunk = 128;
    needs.threads = 2;
    needs.scratch_per_thread = 4 * kMiB;
  }
  MemoryPlan plan(uint64_t ram, ExpertsPlace place = ExpertsPlace::automatic) const {
    return plan_memory(needs, decide_budget(ram, 0), place, "R1");
  }
  std::string refused(uint64_t ram, ExpertsPlace place = ExpertsPlace::automatic) const {
    try {
      plan(ram, place);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::input);
      return error.what();
    }
    ADD_FAILURE() << "was accepted";
    return "";
  }
};

TEST(MemoryPlan, TheReleasedModelStreamsWithinTwentyGiB) {
  const MemoryPlan plan = Released().plan(20 * kGiB);
  EXPECT_EQ(plan.experts, ExpertsPlace::disk);
  EXPECT_TRUE(plan.embedding_on_disk);
  EXPECT_LE(plan.needed(), 20 * kGiB);
  // What is left is all used: less than one more expert would fit.
  EXPECT_GT(plan.needed() + Released().needs.slot_bytes, 20 * kGiB);
  EXPECT_EQ(plan.cache_bytes % Released().needs.slot_bytes, 0u);
  EXPECT_GE(plan.cache_bytes / Released().needs.slot_bytes, 30u);
  EXPECT_EQ(plan.prefill_chunk, 4096);
}

TEST(MemoryPlan, WhatDoesNotFitIsRefusedWithATable) {
  const std::string message = Released().refused(16 * kGiB);
  for (const char* part : {"attention", "shared experts", "dense MLP", "head", "KV cache",
                           "process", "--ctx", "--ram", "R1", "16.0 GiB"}) {
    EXPECT_NE(message.find(part), std::string::npos) << part << " in " << message;
  }
  EXPECT_NE(Released().refused(20 * kGiB, ExpertsPlace::memory).find("--experts disk"),
            std::string::npos);
}

// What is said to fit does, and a page more does not.
TEST(MemoryPlan, ARefusalSaysWhichContextFits) {
  Released dense;
  dense.needs.experts = 0;
  dense.needs.slot_bytes = 0;
  dense.needs.footprint.main[static_cast<size_t>(Part::routed_experts)] = 0;
  dense.needs.context = 163840;
  dense.needs.prefill_chunk = 512;
  const std::string message = dense.refused(24 * kGiB);
  const size_t at = message.find("--ctx (");
  ASSERT_NE(at, std::string::npos) << message;
  dense.needs.context = std::stoll(message.substr(at + 7));
  EXPECT_NE(message.find(fmt::format("--ctx ({} fits)", dense.needs.context)), std::string::npos);
  EXPECT_GT(dense.needs.context, 4096);
  EXPECT_LE(dense.plan(24 * kGiB).needed(), 24 * kGiB);
  dense.needs.context += 64;
  EXPECT_NE(dense.refused(24 * kGiB), "");
  dense.needs.context = 64;
  EXPECT_EQ(dense.refused(16 * kGiB).find("fits)"), std::string::npos);
}

TEST(MemoryPlan, EverythingInMemoryWhereItFits) {
  Released small;
  small.needs.footprint.main[static_cast<size_t>(Part::routed_experts)] = kGiB;
  const MemoryPlan plan = small.plan(25 * kGiB);
  EXPECT_EQ(plan.experts, ExpertsPlace::memory);
  EXPECT_FALSE(plan.embedding_on_disk);
  EXPECT_EQ(plan.cache_bytes, 0u);
  EXPECT_EQ(small.plan(25 * kGiB, ExpertsPlace::disk).experts, ExpertsPlace::disk);
}

TEST(MemoryPlan, ALongContextTakesThePromptInPieces) {
  Released long_context;
  long_context.needs.context = 16384;
  const MemoryPlan plan = long_context.plan(20 * kGiB);
  EXPECT_LT(plan.prefill_chunk, 16384);
  EXPECT_GE(plan.prefill_chunk, 512);
  long_context.needs.prefill_chunk = 64;
  EXPECT_EQ(long_context.plan(20 * kGiB).prefill_chunk, 64);
}

uint64_t share(const MemoryPlan& plan, const std::string& name) {
  for (const MemoryShare& share : plan.shares) {
    if (share.name == name) return share.bytes;
  }
  return 0;
}

TEST(MemoryPlan, AHeadOf8BitsLeavesRoomForExperts) {
  constexpr uint64_t kTable = uint64_t{129280} * (7168 + 4);
  const MemoryPlan stored = Released().plan(20 * kGiB);
  Released int8;
  int8.needs.int8_head = true;
  const MemoryPlan head = int8.plan(20 * kGiB);
  EXPECT_EQ(share(stored, "head"), 1'853'358'080u);
  EXPECT_EQ(share(head, "head"), 0u);
  EXPECT_EQ(share(head, "head (int8)"), kTable);
  EXPECT_TRUE(head.embedding_on_disk);
  EXPECT_GE(head.cache_bytes, stored.cache_bytes + 20 * int8.needs.slot_bytes);

  // The embedding is in memory wherever experts are.
  int8.needs.int8_embedding = true;
  const MemoryPlan both = int8.plan(20 * kGiB);
  EXPECT_EQ(both.experts, ExpertsPlace::disk);
  EXPECT_FALSE(both.embedding_on_disk);
  EXPECT_EQ(share(both, "embedding (int8)"), kTable);
  EXPECT_LT(both.cache_bytes, head.cache_bytes);

  // The MTP layer's own copies too.
  int8.needs.mtp = int8.needs.mtp_own_head = true;
  const MemoryPlan mtp = int8.plan(20 * kGiB);
  EXPECT_EQ(share(mtp, "head (int8)"), 2 * kTable);
  EXPECT_EQ(share(mtp, "embedding (int8)"), kTable);
  int8.needs.mtp_own_embedding = true;
  EXPECT_EQ(share(int8.plan(20 * kGiB), "embedding (int8)"), 2 * kTable);

  // One tensor for both: counted once.
  int8.needs.mtp = false;
  int8.needs.tied = true;
  EXPECT_EQ(share(int8.plan(20 * kGiB), "head (int8)"), kTable);
  EXPECT_EQ(share(int8.plan(20 * kGiB), "embedding (int8)"), 0u);
  EXPECT_EQ(share(int8.plan(1000 * kGiB), "embedding"), 0u);

  Released small;
  small.needs.footprint.main[static_cast<size_t>(Part::routed_experts)] = kGiB;
  small.needs.int8_embedding = true;
  const MemoryPlan resident = small.plan(25 * kGiB);
  EXPECT_EQ(resident.experts, ExpertsPlace::memory);
  EXPECT_EQ(share(resident, "embedding (int8)"), kTable);
  EXPECT_EQ(share(resident, "embedding"), 0u);
}

TEST(MemoryPlan, LimitsOfTheCache) {
  Released limited;
  limited.needs.most_slots = 3;
  EXPECT_EQ(limited.plan(24 * kGiB).cache_bytes, 3 * limited.needs.slot_bytes);
  limited.needs.most_slots = 1;  // fewer than it takes
  EXPECT_EQ(limited.plan(24 * kGiB).cache_bytes, 2 * limited.needs.slot_bytes);
}

TEST(MemoryPlan, ADefaultBudgetLeavesSomethingToOthers) {
  EXPECT_LT(decide_budget(0, 24 * kGiB).bytes, 23 * kGiB);
  EXPECT_GT(decide_budget(0, 24 * kGiB).bytes, 20 * kGiB);
  EXPECT_GT(decide_budget(0, 300 * kMiB).bytes, 0u);
  EXPECT_EQ(decide_budget(0, 0).bytes, UINT64_MAX);
  EXPECT_EQ(decide_budget(5 * kGiB, 24 * kGiB).bytes, 5 * kGiB);
}

}  // namespace
}  // namespace fathom
