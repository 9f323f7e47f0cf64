// What a checkpoint would take on a machine, and how fast it would be: from headers alone.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "checkpoint/model_config.h"
#include "engine/memory_plan.h"

namespace fathom {

// What the machine gives.
struct MachineRates {
  double disk = 0;        // bytes per second, experts read at random places
  double memory = 0;      // bytes per second
  double operations = 0;  // float32 operations per second; a multiply-add is two
};

struct ForecastOptions {
  uint64_t ram = 0;                             // 0: what is available, less a reserve
  int64_t context = 0;                          // 0: decided from the files
  std::optional<int64_t> tokenizer_max_length;  // one of them
  int threads = 1;
  MachineRates rates;
  std::optional<uint64_t> free_disk;  // where a copy would go; nothing: not looked at
};

// Seconds of one pass, by what could be the limit. Floors: nothing is faster than the slowest of
// the three.
struct PassForecast {
  int64_t tokens = 1;  // of a prompt, or 1
  int64_t sequences = 1;
  double distinct_experts = 0;  // in all layers, expected
  uint64_t disk_bytes = 0;      // after what the cache holds
  double disk_seconds = 0;
  double memory_seconds = 0;
  double operation_seconds = 0;
  double expected_seconds = 0;  // with kernels as fast as they are, and reading beside computing
  double floor() const;
  const char* binding() const;  // "disk", "memory" or "arithmetic"
};

// A change, and what decoding one token would take then.
struct WhatIf {
  std::string change;
  std::optional<double> seconds_per_token;  // nothing: it cannot be done
  std::string note;
};

struct ModelForecast {
  // From headers.
  uint64_t payload_bytes = 0;
  uint64_t resident_bytes = 0;  // all that is no routed expert, without the MTP layer
  uint64_t routed_bytes = 0;
  uint64_t mtp_bytes = 0;
  uint64_t streamed_per_token = 0;  // with no expert in memory
  uint64_t expert_reads_per_token = 0;
  uint64_t experts = 0;
  uint64_t split_experts = 0;             // that take more than one read
  uint64_t macs_per_token = 0;            // without attention over the cache
  uint64_t macs_per_cached_position = 0;  // and token
  uint64_t kv_bytes_per_token = 0;
  std::vector<std::pair<int64_t, uint64_t>> kv_at;  // context, bytes

  // In this much memory.
  int64_t context = 0;
  std::string context_reason;
  uint64_t budget = 0;
  std::string budget_reason;
  std::optional<MemoryPlan> plan;  // nothing: it does not fit
  std::string refused;             // why
  uint64_t least_memory = 0;       // smallest budget with this context
  int64_t largest_context = 0;     // 0: none fits
  double cached_share = 0;         // of all routed experts

  // Nothing where it does not fit.
  std::optional<PassForecast> decode;
  std::vector<PassForecast> prefill;
  std::vector<WhatIf> what_if;

  uint64_t packed_bytes = 0;        // of a copy of the routed experts, each in one place
  std::optional<bool> packed_fits;  // on the free disk
  std::optional<bool> whole_copy_fits;
};

// Memory is divided by plan_memory(), as a run would. Error(usage) where the context is longer than
// the model's.
ModelForecast forecast_model(const Checkpoint& checkpoint, const ModelConfig& config,
                             const ForecastOptions& options);

}  // namespace fathom
