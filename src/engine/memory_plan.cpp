#include "engine/memory_plan.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "base/units.h"
#include "cache/kv_cache.h"
#include "experts/streamed_store.h"

namespace fathom {
namespace {

// A prompt's own memory may take this share of what is left, before it is swept in pieces.
constexpr uint64_t kPromptShare = 8;
constexpr int64_t kLeastPrefillChunk = 512;
// Several prompts that begin together go in passes of this many rows.
constexpr int64_t kMostJointRows = 4096;

constexpr auto kLeastExpertSlots = static_cast<uint64_t>(StreamedExpertStore::kLeastSlots);

uint64_t natural(int64_t value) { return static_cast<uint64_t>(std::max<int64_t>(value, 0)); }

// Bytes that each row of a sweep holds from its first layer to its last, itself included.
uint64_t sweep_bytes_per_row(const MemoryShape& shape) {
  return natural(shape.sweep_floats) * sizeof(float) + sizeof(int64_t) * 8;
}

// What `rows` rows of a prompt hold at the most. With the MTP layer their final hidden states stay
// until it has gone over them too, in parts, each with matrices of its own.
uint64_t prompt_bytes(const MemoryShape& shape, bool mtp, int64_t rows) {
  const uint64_t sweep = natural(rows) * sweep_bytes_per_row(shape);
  if (!mtp) return sweep;
  constexpr int64_t kMtpRows = 2048;
  constexpr uint64_t kMtpMatrices = 5;
  const uint64_t matrix_row = natural(shape.hidden_size) * sizeof(float);
  const uint64_t kept = natural(rows) * matrix_row;
  return kept + std::max(sweep, kMtpMatrices * natural(std::min(rows, kMtpRows)) * matrix_row);
}

std::string table(const std::vector<MemoryShare>& shares) {
  std::string text;
  for (const MemoryShare& share : shares) {
    text += fmt::format("\n  {:<34} {:>10}", share.name, format_size(share.bytes));
  }
  return text;
}

class Planner {
 public:
  Planner(const MemoryNeeds& needs, const MemoryBudget& budget) : needs_(needs) {
    plan_.budget = budget;
  }

  MemoryPlan plan(ExpertsPlace place, const std::string& folder) {
    for (const Part part : {Part::attention, Part::dense_mlp, Part::shared_experts, Part::router,
                            Part::norms, Part::mtp_projection}) {
      uint64_t bytes = needs_.footprint.of(part, needs_.mtp);
      if (part == Part::norms) bytes *= 3;  // kept as stored, and widened to float
      add(std::string(part_name(part)), bytes);
    }
    const auto one = [&](Part part, bool mtp_too) { return needs_.footprint.of(part, mtp_too); };
    const bool own_head = needs_.mtp && needs_.mtp_own_head;
    const bool own_embedding = needs_.mtp && needs_.mtp_own_embedding;
    if (needs_.int8_head) {
      add("head (int8)", int8_table(own_head ? 2 : 1));
    } else {
      add("head", needs_.tied ? one(Part::embedding, false) : one(Part::head, own_head));
    }
    // In memory wherever experts are.
    if (needs_.int8_embedding && !needs_.tied) {
      add("embedding (int8)", int8_table(own_embedding ? 2 : 1));
    }
    plan_.kv_pages = needs_.sequences * ((needs_.context + kPagePositions - 1) / kPagePositions);
    add(needs_.sequences == 1
            ? fmt::format("KV cache (--ctx {})", needs_.context)
            : fmt::format("KV cache ({} x --ctx {})", needs_.sequences, needs_.context),
        natural(plan_.kv_pages * kPagePositions) * needs_.kv_bytes_per_token);
    add("process", kProcessOverhead);

    const int64_t rows = std::min(needs_.row_chunk, std::max<int64_t>(needs_.context, 1));
    const uint64_t logits = natural(needs_.shape.vocab_size * needs_.sequences) * sizeof(float);
    add("scratch", natural(rows * needs_.shape.scratch_floats) * sizeof(float) + logits +
                       needs_.store_scratch + natural(needs_.threads) * needs_.scratch_per_thread);
    const uint64_t least = kLeastExpertSlots * needs_.slot_bytes;
    decide_prefill_chunk(least);

    const bool stored_embedding = !needs_.tied && !needs_.int8_embedding;
    const uint64_t embedding = stored_embedding ? one(Part::embedding, own_embedding) : 0;
    const uint64_t routed = one(Part::routed_experts, needs_.mtp);
    const bool all_fit = plan_.needed() + embedding + routed <= plan_.budget.bytes;
    plan_.experts = place == ExpertsPlace::automatic
                        ? (all_fit ? ExpertsPlace::memory : ExpertsPlace::disk)
                        : place;
    if (needs_.experts == 0) plan_.experts = ExpertsPlace::memory;
    if (plan_.experts == ExpertsPlace::memory) {
      add("embedding", embedding);
      if (routed > 0) add("routed experts", routed);
      if (plan_.needed() > plan_.budget.bytes) refuse(folder);
      return std::move(plan_);
    }
    // A row of the embedding is a few KB and read in no time, while memory saves reading experts.
    plan_.embedding_on_disk = stored_embedding;
    const uint64_t fixed = plan_.needed();
    const uint64_t most = needs_.most_slots > 0 ? needs_.most_slots : needs_.experts;
    const uint64_t all = std::clamp(most, kLeastExpertSlots, needs_.experts) * needs_.slot_bytes;
    if (fixed + least > plan_.budget.bytes) {
      add(fmt::format("experts (at least {})", kLeastExpertSlots), least);
      refuse(folder);
    }
    plan_.cache_bytes =
        std::min(plan_.budget.bytes - fixed, all) / needs_.slot_bytes * needs_.slot_bytes;
    add(fmt::format("experts ({} of {})", plan_.cache_bytes / needs_.slot_bytes, needs_.experts),
        plan_.cache_bytes);
    return std::move(plan_);
  }

 private:
  void add(const std::string& name, uint64_t bytes) {
    if (bytes > 0) plan_.shares.push_back({name, bytes});
  }

  // `copies` of a matrix of the vocabulary in 8 bits: bytes, and a scale for each row.
  uint64_t int8_table(uint64_t copies) const {
    return copies * natural(needs_.shape.vocab_size) *
           (natural(needs_.shape.hidden_size) + sizeof(float));
  }

  void decide_prefill_chunk(uint64_t least_experts) {
    const auto bytes = [this](int64_t rows) {
      return prompt_bytes(needs_.shape, needs_.mtp, rows);
    };
    // Rows of one pass: a whole prompt, or those of several sequences together.
    const int64_t together = std::min(needs_.sequences * needs_.context, kMostJointRows);
    int64_t chunk = std::max(needs_.context, together);
    if (needs_.prefill_chunk > 0) chunk = std::min(needs_.prefill_chunk, chunk);
    const uint64_t taken = plan_.needed() + least_experts;
    const uint64_t left = plan_.budget.bytes > taken ? plan_.budget.bytes - taken : 0;
    if (needs_.prefill_chunk == 0) {
      while (chunk > kLeastPrefillChunk && bytes(chunk) > left / kPromptShare) {
        chunk = std::max(kLeastPrefillChunk, chunk / 2);
      }
    }
    plan_.prefill_chunk = chunk;
    add(fmt::format("prompt ({} tokens at once)", chunk), bytes(chunk));
  }

  // The longest context that fits beside all the rest as it is; 0 where nothing is left for one.
  int64_t context_that_fits() const {
    const uint64_t page = natural(kPagePositions) * needs_.kv_bytes_per_token;
    const uint64_t rest = plan_.needed() - natural(plan_.kv_pages) * page;
    if (rest >= plan_.budget.bytes || page == 0) return 0;
    const uint64_t pages = (plan_.budget.bytes - rest) / (page * natural(needs_.sequences));
    return static_cast<int64_t>(pages) * kPagePositions;
  }

  [[noreturn]] void refuse(const std::string& folder) const {
    const int64_t context = context_that_fits();
    const std::string fits = context > 0 ? fmt::format(" ({} fits)", context) : "";
    fail_input(
        "{}: this takes {} of memory, and the budget is {} ({}):{}\n  what helps: a smaller "
        "--ctx{}, --kv int8, {}{}--prefill-chunk, fewer sequences at once{}, a larger --ram",
        folder, format_size(plan_.needed()), format_size(plan_.budget.bytes), plan_.budget.reason,
        table(plan_.shares), fits, needs_.quantisable_layers ? "--weights int8 or int4, " : "",
        needs_.int8_head || needs_.tied ? "" : "--head int8, ",
        plan_.experts == ExpertsPlace::memory && needs_.experts > 0 ? ", --experts disk" : "");
  }

  const MemoryNeeds& needs_;
  MemoryPlan plan_;
};

}  // namespace

MemoryShape memory_shape_of(const DeepseekConfig& config) {
  const int64_t heads = config.num_attention_heads;
  const int64_t cached = config.kv_lora_rank + config.qk_rope_head_dim;
  const int64_t attention = config.q_lora_rank.value_or(0) + heads * config.qk_head_dim() +
                            2 * cached + config.qk_rope_head_dim + heads * cached +
                            heads * config.kv_lora_rank + heads * config.v_head_dim +
                            config.hidden_size;
  const int64_t shared = config.moe_intermediate_size * config.n_shared_experts;
  const int64_t mlp = 2 * std::max(config.intermediate_size, shared) + config.hidden_size;
  // A sweep has two matrices, the router's logits and the choices.
  const int64_t sweep =
      2 * config.hidden_size + config.n_routed_experts + 4 * config.num_experts_per_tok;
  return {config.vocab_size, config.hidden_size, sweep, attention + mlp};
}

MemoryShape memory_shape_of(const DenseConfig& config) {
  const int64_t q = config.q_rows();
  const int64_t kv = config.kv_rows();
  // Queries before and after RoPE and what attention gives; keys and values, and both as cached.
  const int64_t attention = 3 * q + 4 * kv + config.hidden_size;
  const int64_t mlp = 2 * config.intermediate_size + config.hidden_size;
  return {config.vocab_size, config.hidden_size, 2 * config.hidden_size + config.head_dim,
          attention + mlp};
}

void set_expert_needs(const ExpertLayout& layout, uint64_t budget, MemoryNeeds* needs) {
  StreamedStoreOptions store;
  store.row_chunk = needs->row_chunk;
  store.cache_bytes = std::min(budget, layout.total_bytes());
  needs->experts = natural(layout.expert_count());
  needs->slot_bytes = layout.slot_bytes();
  needs->store_scratch = StreamedExpertStore::scratch_bytes(layout, store);
}

uint64_t MemoryPlan::needed() const {
  return std::accumulate(shares.begin(), shares.end(), uint64_t{0},
                         [](uint64_t sum, const MemoryShare& share) { return sum + share.bytes; });
}

MemoryBudget decide_budget(uint64_t asked, uint64_t available) {
  if (asked > 0) return {asked, fmt::format("--ram {}", format_size(asked))};
  if (available == 0) return {UINT64_MAX, "how much is available is not known"};
  // Others go on living: the desktop, the file system.
  const uint64_t reserve = std::max<uint64_t>(available / 16, uint64_t{512} << 20);
  const uint64_t bytes = available > reserve ? available - reserve : available / 2;
  return {bytes, fmt::format("{} are available, {} of them are left to others",
                             format_size(available), format_size(available - bytes))};
}

MemoryPlan plan_memory(const MemoryNeeds& needs, const MemoryBudget& budget, ExpertsPlace place,
                       const std::string& folder) {
  return Planner(needs, budget).plan(place, folder);
}

}  // namespace fathom
