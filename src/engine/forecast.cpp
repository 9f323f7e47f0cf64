#include "engine/forecast.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/system.h"
#include "base/units.h"
#include "cache/kv_cache.h"
#include "checkpoint/expected_tensors.h"
#include "checkpoint/footprint.h"
#include "checkpoint/model_tensors.h"
#include "engine/context_length.h"
#include "experts/expert_layout.h"
#include "kernels/context.h"
#include "model/dense/attention.h"

namespace fathom {
namespace {

// Share of plain reading that the kernels reach with one row, and of the multiply-add peak with
// many (docs/performance.md).
constexpr double kReadShare = 0.8;
constexpr double kMultiplyShare = 0.6;
// Drafts of the MTP layer that the main model accepts, as its makers report.
constexpr double kAcceptedDrafts = 0.85;
constexpr int64_t kBatch = 8;

// What a token multiplies with, beside the routed experts, and what one routed expert has.
struct Weights {
  uint64_t resident = 0;
  uint64_t head = 0;  // of them, which of a prompt only the last token needs
  uint64_t expert = 0;
};

// What one token keeps in the cache, and multiply-adds of one token with one kept position.
struct AttentionCosts {
  KvCacheLayout kv;
  int64_t macs_per_position = 0;
};

AttentionCosts attention_costs_of(const DeepseekConfig& c) {
  return {{c.num_hidden_layers, {KvFormat::bf16, c.kv_lora_rank, c.qk_rope_head_dim}},
          c.num_hidden_layers * c.num_attention_heads * (2 * c.kv_lora_rank + c.qk_rope_head_dim)};
}

AttentionCosts attention_costs_of(const DenseConfig& c) {
  return {{c.num_hidden_layers, dense_kv_row(c, KvFormat::bf16)},
          c.num_hidden_layers * c.num_attention_heads * 2 * c.head_dim};
}

uint64_t elements(const std::vector<int64_t>& shape) {
  uint64_t count = 1;
  for (const int64_t size : shape) count *= static_cast<uint64_t>(size);
  return count;
}

class Forecaster {
 public:
  Forecaster(const Checkpoint& checkpoint, const ModelConfig& config,
             const ForecastOptions& options)
      : checkpoint_(checkpoint),
        config_(config),
        shape_(shape_of(config)),
        options_(options),
        tied_(has_tied_embeddings(config)) {}

  ModelForecast run() {
    footprint_ = footprint_of(checkpoint_, config_);
    read_headers();
    divide_memory();
    if (f_.plan) {
      cached_ = f_.cached_share;
      f_.decode = pass(1, 1, options_.rates, cached_);
      for (int64_t tokens : {int64_t{512}, int64_t{4096}, f_.context}) {
        tokens = std::min(tokens, f_.context);
        if (!f_.prefill.empty() && f_.prefill.back().tokens >= tokens) continue;
        f_.prefill.push_back(pass(tokens, 1, options_.rates, cached_));
      }
      ask_what_if();
    }
    copies();
    return std::move(f_);
  }

 private:
  uint64_t main_bytes(Part part) const { return footprint_.of(part, false); }

  void read_headers() {
    f_.payload_bytes = checkpoint_.payload_bytes();
    f_.routed_bytes = main_bytes(Part::routed_experts);
    f_.resident_bytes = footprint_.total(false) - f_.routed_bytes;
    f_.mtp_bytes = footprint_.total(true) - footprint_.total(false);
    for (const ExpectedTensor& tensor : expected_tensors(config_, false)) count_weights(tensor);
    const auto* moe = std::get_if<DeepseekConfig>(&config_);
    if (moe != nullptr && moe->n_routed_experts > 0) {
      layout_.emplace(checkpoint_, *moe, false);
      experts_per_layer_ = moe->n_routed_experts;
      f_.experts = static_cast<uint64_t>(layout_->expert_count());
      for (ExpertId id = 0; id < layout_->expert_count(); ++id) {
        f_.split_experts += layout_->parts(id).count > 1 ? 1 : 0;
      }
      moe_layers_ = static_cast<uint64_t>(layout_->moe_layers());
      top_k_ = static_cast<uint64_t>(layout_->experts_per_token());
      if (f_.experts > 0) {
        f_.streamed_per_token = f_.routed_bytes / f_.experts * moe_layers_ * top_k_;
        f_.expert_reads_per_token = moe_layers_ * top_k_;
        weights_.expert /= f_.experts;
      }
    }
    f_.macs_per_token = weights_.resident + moe_layers_ * top_k_ * weights_.expert;
    const auto [kv, macs] =
        std::visit([](const auto& config) { return attention_costs_of(config); }, config_);
    f_.macs_per_cached_position = static_cast<uint64_t>(macs);
    f_.kv_bytes_per_token = static_cast<uint64_t>(kv.layers * kv.row.bytes());
    const int64_t longest = shape_.max_position_embeddings;
    for (int64_t context = 4096; context < longest; context *= 4) {
      f_.kv_at.emplace_back(context, static_cast<uint64_t>(context) * f_.kv_bytes_per_token);
    }
    f_.kv_at.emplace_back(longest, static_cast<uint64_t>(longest) * f_.kv_bytes_per_token);
  }

  // Matrices that a token is multiplied with: no norms, and the embedding only where it is the head
  // too. By the config's shapes, which quantised matrices do not have.
  void count_weights(const ExpectedTensor& tensor) {
    if (tensor.shape.size() != 2 || checkpoint_.find(tensor.name) == nullptr) return;
    if (tensor.name == names::kEmbedding && !tied_) return;
    if (tensor.name == names::kHead && tied_) return;
    if (!names::layer_of(tensor.name)) weights_.head += elements(tensor.shape);
    const bool routed = tensor.name.find(".mlp.experts.") != std::string::npos;
    (routed ? weights_.expert : weights_.resident) += elements(tensor.shape);
  }

  MemoryNeeds needs(int64_t context, int64_t sequences, uint64_t budget) const {
    MemoryNeeds needs;
    needs.shape = std::visit([](const auto& config) { return memory_shape_of(config); }, config_);
    needs.footprint = footprint_;
    needs.tied = tied_;
    needs.context = context;
    needs.sequences = sequences;
    needs.row_chunk = kDefaultRowChunk;
    needs.threads = options_.threads;
    needs.scratch_per_thread = KernelContext::kScratchBytes;
    needs.kv_bytes_per_token = f_.kv_bytes_per_token;
    if (layout_) set_expert_needs(*layout_, budget, &needs);
    return needs;
  }

  std::optional<MemoryPlan> plan(int64_t context, int64_t sequences, const MemoryBudget& budget,
                                 std::string* refused = nullptr) const {
    try {
      return plan_memory(needs(context, sequences, budget.bytes), budget, ExpertsPlace::automatic,
                         checkpoint_.folder());
    } catch (const Error& error) {
      if (refused != nullptr) *refused = error.what();
      return std::nullopt;
    }
  }
  bool fits(int64_t context, uint64_t budget) const {
    return plan(context, 1, {budget, ""}).has_value();
  }

  void divide_memory() {
    const ContextDecision context =
        decide_context(shape_, options_.tokenizer_max_length, options_.context);
    f_.context = context.tokens;
    f_.context_reason = context.reason;
    const MemoryBudget budget = decide_budget(options_.ram, system::available_memory());
    f_.budget = budget.bytes;
    f_.budget_reason = budget.reason;
    f_.plan = plan(f_.context, 1, budget, &f_.refused);
    if (f_.plan) f_.cached_share = share_cached(*f_.plan);
    f_.least_memory = least_memory();
    f_.largest_context = largest_context();
  }

  // The division itself is asked, so that there is no second opinion.
  uint64_t least_memory() const {
    uint64_t low = 0;
    uint64_t high = uint64_t{1} << 20;
    constexpr uint64_t kMost = uint64_t{1} << 62;
    while (high < kMost && !fits(f_.context, high)) {
      low = high;
      high *= 2;
    }
    constexpr uint64_t kPrecision = uint64_t{1} << 16;
    while (high - low > kPrecision) {
      const uint64_t middle = low + (high - low) / 2;
      (fits(f_.context, middle) ? high : low) = middle;
    }
    return high;
  }
  int64_t largest_context() const {
    int64_t low = 0;
    int64_t high = shape_.max_position_embeddings + 1;
    while (high - low > 1) {
      const int64_t middle = low + (high - low) / 2;
      (fits(middle, f_.budget) ? low : high) = middle;
    }
    return low;
  }

  double share_cached(const MemoryPlan& plan) const {
    if (plan.experts == ExpertsPlace::memory || f_.experts == 0) return 1;
    return static_cast<double>(plan.cache_bytes / layout_->slot_bytes()) /
           static_cast<double>(f_.experts);
  }

  // Experts of one layer that `tokens` tokens go to, where all are chosen equally often.
  double distinct(int64_t tokens) const {
    if (f_.experts == 0) return 0;
    const auto of_layer = static_cast<double>(experts_per_layer_);
    const double spared = 1 - static_cast<double>(top_k_) / of_layer;
    return of_layer * (1 - std::pow(spared, static_cast<double>(tokens)));
  }

  // A pass of `sequences` sequences with `tokens` tokens each, at the end of a context as long as
  // asked for (a prompt: from its beginning).
  PassForecast pass(int64_t tokens, int64_t sequences, const MachineRates& rates,
                    double cached) const {
    PassForecast p;
    p.tokens = tokens;
    p.sequences = sequences;
    const auto rows = static_cast<double>(tokens * sequences);
    const double expert_bytes =
        f_.experts > 0 ? static_cast<double>(f_.routed_bytes) / static_cast<double>(f_.experts) : 0;
    // A prompt that does not fit one pass reads its experts once for each of them.
    const int64_t chunk = std::max<int64_t>(std::min(f_.plan->prefill_chunk, tokens), 1);
    const auto sweeps = static_cast<double>((tokens + chunk - 1) / chunk);
    p.distinct_experts = sweeps * static_cast<double>(moe_layers_) * distinct(chunk * sequences);
    const double routed = p.distinct_experts * expert_bytes;
    p.disk_bytes = static_cast<uint64_t>(std::llround(routed * (1 - cached)));
    p.disk_seconds = static_cast<double>(p.disk_bytes) / rates.disk;

    // Resident weights are read from memory once for the rows that are worked on at once.
    const double chunks = std::ceil(rows / static_cast<double>(kDefaultRowChunk));
    const double embedding = tied_ ? 0 : static_cast<double>(main_bytes(Part::embedding));
    const double context = static_cast<double>(tokens > 1 ? tokens / 2 : f_.context);
    const double cache_bytes = context * static_cast<double>(f_.kv_bytes_per_token) *
                               (tokens > 1 ? chunks : static_cast<double>(sequences));
    const double resident =
        (static_cast<double>(f_.resident_bytes) - embedding) * chunks + cache_bytes;
    const double resident_memory = resident / rates.memory;
    const double routed_memory = routed / rates.memory;
    p.memory_seconds = resident_memory + routed_memory;

    const double attention = context * static_cast<double>(f_.macs_per_cached_position);
    const auto head = static_cast<double>(weights_.head);
    const double resident_operations =
        2 *
        (rows * (static_cast<double>(weights_.resident) - head + attention) +
         static_cast<double>(sequences) * head) /
        rates.operations;
    const double routed_operations =
        2 * rows * static_cast<double>(moe_layers_ * top_k_ * weights_.expert) / rates.operations;
    p.operation_seconds = resident_operations + routed_operations;

    // Experts are computed while others are read; everything else waits its turn.
    const auto computing = [](double memory, double operations) {
      return std::max(memory / kReadShare, operations / kMultiplyShare);
    };
    p.expected_seconds = computing(resident_memory, resident_operations) +
                         std::max(p.disk_seconds, computing(routed_memory, routed_operations));
    return p;
  }

  double per_token(const PassForecast& p) const {
    return p.expected_seconds / static_cast<double>(p.sequences);
  }

  void ask_what_if() {
    const bool on_disk = f_.plan->experts == ExpertsPlace::disk;
    if (f_.mtp_bytes > 0) {
      // Two tokens go through the main model at once, and the layer itself drafts.
      PassForecast two = pass(1, 2, options_.rates, cached_);
      const double layers = static_cast<double>(shape_.num_hidden_layers);
      const double drafting = f_.decode->expected_seconds / layers;
      f_.what_if.push_back(
          {"multi-token prediction (--mtp on)",
           (two.expected_seconds + drafting) / (1 + kAcceptedDrafts),
           fmt::format(
               "{:.0f}% of drafts accepted; two tokens need {:.1f} times the experts of one",
               100 * kAcceptedDrafts,
               f_.experts > 0 ? distinct(2) / static_cast<double>(top_k_) : 1)});
    }
    const MemoryBudget budget{f_.budget, f_.budget_reason};
    WhatIf batch{fmt::format("{} sequences at once", kBatch), std::nullopt, ""};
    if (const auto p = plan(f_.context, kBatch, budget)) {
      batch.seconds_per_token = per_token(pass(1, kBatch, options_.rates, share_cached(*p)));
      batch.note = "for each token of any of them";
    } else {
      batch.note = fmt::format("{} caches of {} tokens do not fit", kBatch, f_.context);
    }
    f_.what_if.push_back(batch);
    if (!on_disk) return;
    MachineRates faster = options_.rates;
    faster.disk *= 2;
    f_.what_if.push_back({"a second disk as fast (--mirror)",
                          per_token(pass(1, 1, faster, cached_)), "with a copy of the shards"});
    const uint64_t twice = 2 * f_.budget;
    if (const auto p = plan(f_.context, 1, {twice, "twice as much"})) {
      const double cached = share_cached(*p);
      f_.what_if.push_back({fmt::format("{} of memory", format_size(twice)),
                            per_token(pass(1, 1, options_.rates, cached)),
                            fmt::format("{:.1f}% of the experts in memory", 100 * cached)});
    }
    f_.what_if.push_back({"every expert in memory", per_token(pass(1, 1, options_.rates, 1)), ""});
    f_.what_if.push_back(
        {"a packed copy of the experts", per_token(*f_.decode),
         fmt::format("{} of {} experts lie in several places; as many bytes in fewer reads",
                     f_.split_experts, f_.experts)});
  }

  void copies() {
    f_.packed_bytes = f_.routed_bytes;
    if (!options_.free_disk) return;
    f_.packed_fits = f_.packed_bytes <= *options_.free_disk;
    f_.whole_copy_fits = f_.payload_bytes <= *options_.free_disk;
  }

  const Checkpoint& checkpoint_;
  const ModelConfig& config_;
  const ModelShape shape_;
  const ForecastOptions& options_;
  const bool tied_;
  ModelForecast f_;
  Footprint footprint_;
  std::optional<ExpertLayout> layout_;
  Weights weights_;
  uint64_t moe_layers_ = 0;
  int64_t experts_per_layer_ = 0;
  uint64_t top_k_ = 0;
  double cached_ = 0;
};

}  // namespace

double PassForecast::floor() const {
  return std::max({disk_seconds, memory_seconds, operation_seconds});
}

const char* PassForecast::binding() const {
  if (disk_seconds >= memory_seconds && disk_seconds >= operation_seconds) return "disk";
  return memory_seconds >= operation_seconds ? "memory" : "arithmetic";
}

ModelForecast forecast_model(const Checkpoint& checkpoint, const ModelConfig& config,
                             const ForecastOptions& options) {
  return Forecaster(checkpoint, config, options).run();
}

}  // namespace fathom
