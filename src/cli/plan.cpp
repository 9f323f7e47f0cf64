// fathom plan: what a checkpoint takes on this machine, and how fast it would be.
#include <fmt/core.h>

#include <algorithm>

#include "base/error.h"
#include "base/file.h"
#include "base/io_choice.h"
#include "base/log.h"
#include "base/system.h"
#include "base/units.h"
#include "checkpoint/model_tensors.h"
#include "cli/commands.h"
#include "cli/interrupt.h"
#include "cli/json_output.h"
#include "engine/forecast.h"
#include "engine/text_folder.h"
#include "kernels/limits/measure.h"

namespace fathom::cli {
namespace {

constexpr double kDiskSeconds = 0.5;  // for each way of reading
constexpr double kLimitSeconds = 0.5;

struct Rate {
  double value = 0;
  bool measured = false;
};

struct Rates {
  Rate disk, memory, operations;
  std::string disk_mode;  // where it was measured
};

Rates find_rates(const PlanOptions& options, const Checkpoint& checkpoint, int threads) {
  Rates rates;
  const auto take = [](const std::optional<double>& told, const auto& measure) {
    return told ? Rate{*told, false} : Rate{measure(), true};
  };
  rates.disk = take(options.disk, [&] {
    log::info("measuring the disk");
    ExtentReaderOptions reader;
    for (const Shard& shard : checkpoint.shards()) reader.paths.push_back({shard.file.path()});
    const IoChoice choice =
        measure_io_modes(reader, kDiskSeconds, uint64_t{64} << 20, &interrupt_token());
    rates.disk_mode = io_mode_name(choice.best);
    double best = 0;
    for (const IoMeasurement& mode : choice.modes) {
      if (mode.mode == choice.best) best = mode.bytes_per_second;
    }
    if (!(best > 0))
      fail_input("{}: its disk cannot be measured; give --disk-bandwidth", checkpoint.folder());
    return best;
  });
  rates.memory = take(options.memory, [&] {
    return measure_read_bandwidth(best_kernels(), threads, kLimitSeconds);
  });
  rates.operations = take(options.operations, [&] {
    return measure_multiply_add_peak(best_kernels(), threads, kLimitSeconds);
  });
  return rates;
}

std::string json_list(const std::vector<JsonObject>& objects) {
  std::string text;
  for (const JsonObject& object : objects) text += (text.empty() ? "" : ",") + object.str();
  return "[" + text + "]";
}

JsonObject rate_json(const Rate& rate) {
  return JsonObject().number("per_second", rate.value).boolean("measured", rate.measured);
}

JsonObject pass_json(const PassForecast& p) {
  return JsonObject()
      .integer("tokens", p.tokens)
      .number("distinct_experts", p.distinct_experts)
      .natural("disk_bytes", p.disk_bytes)
      .number("disk_seconds", p.disk_seconds)
      .number("memory_seconds", p.memory_seconds)
      .number("arithmetic_seconds", p.operation_seconds)
      .number("floor_seconds", p.floor())
      .text("binding", p.binding())
      .number("expected_seconds", p.expected_seconds);
}

std::string as_json(const ModelForecast& f, const Rates& rates, const PlanOptions& options) {
  std::vector<JsonObject> kv, memory, prefill, changes;
  for (const auto& [context, bytes] : f.kv_at) {
    kv.push_back(JsonObject().integer("context", context).natural("bytes", bytes));
  }
  if (f.plan) {
    for (const MemoryShare& share : f.plan->shares) {
      memory.push_back(JsonObject().text("name", share.name).natural("bytes", share.bytes));
    }
  }
  for (const PassForecast& p : f.prefill) prefill.push_back(pass_json(p));
  for (const WhatIf& change : f.what_if) {
    changes.push_back(JsonObject()
                          .text("change", change.change)
                          .number("seconds_per_token", change.seconds_per_token)
                          .text("note", change.note));
  }
  const auto yes_or_no = [](const std::optional<bool>& value) {
    return value ? (*value ? "true" : "false") : "null";
  };
  return JsonObject()
             .text("folder", options.folder)
             .natural("payload_bytes", f.payload_bytes)
             .natural("resident_bytes", f.resident_bytes)
             .natural("routed_bytes", f.routed_bytes)
             .natural("mtp_bytes", f.mtp_bytes)
             .natural("streamed_per_token", f.streamed_per_token)
             .natural("expert_reads_per_token", f.expert_reads_per_token)
             .natural("experts", f.experts)
             .natural("split_experts", f.split_experts)
             .natural("macs_per_token", f.macs_per_token)
             .natural("macs_per_cached_position", f.macs_per_cached_position)
             .natural("kv_bytes_per_token", f.kv_bytes_per_token)
             .raw("kv", json_list(kv))
             .integer("context", f.context)
             .text("context_reason", f.context_reason)
             .natural("memory_budget", f.budget)
             .text("memory_reason", f.budget_reason)
             .boolean("fits", f.plan.has_value())
             .raw("memory", json_list(memory))
             .text("experts_place", !f.plan                                   ? ""
                                    : f.plan->experts == ExpertsPlace::memory ? "memory"
                                                                              : "disk")
             .integer("prefill_chunk", f.plan ? f.plan->prefill_chunk : 0)
             .natural("least_memory", f.least_memory)
             .integer("largest_context", f.largest_context)
             .number("cached_share", f.cached_share)
             .object("disk", rate_json(rates.disk))
             .object("memory_bandwidth", rate_json(rates.memory))
             .object("flops", rate_json(rates.operations))
             .raw("decode", f.decode ? pass_json(*f.decode).str() : "null")
             .raw("prefill", json_list(prefill))
             .raw("what_if", json_list(changes))
             .natural("packed_bytes", f.packed_bytes)
             .raw("packed_fits", yes_or_no(f.packed_fits))
             .raw("whole_copy_fits", yes_or_no(f.whole_copy_fits))
             .str() +
         "\n";
}

// Seconds as a person reads them, short ones too.
std::string duration(double seconds) {
  return seconds < 60 ? fmt::format("{:.3g} s", seconds) : format_duration(seconds);
}

std::string pass_line(const std::string& name, const PassForecast& p) {
  return fmt::format("  {:<22} {:>10} {:>10} {:>10}   {:<10} {:>14}\n", name,
                     duration(p.disk_seconds), duration(p.memory_seconds),
                     duration(p.operation_seconds), p.binding(), duration(p.expected_seconds));
}

std::string bytes_line(const std::string& name, uint64_t bytes) {
  return fmt::format("  {:<34} {:>12} {:>20}\n", name, format_size(bytes), bytes);
}

std::string as_text(const ModelForecast& f, const Rates& rates) {
  std::string text = "from the headers\n";
  text += bytes_line("payload", f.payload_bytes);
  text += bytes_line("resident, as stored", f.resident_bytes);
  if (f.experts > 0) {
    text += bytes_line(fmt::format("{} routed experts", f.experts), f.routed_bytes);
    text += bytes_line(fmt::format("read per token ({} experts)", f.expert_reads_per_token),
                       f.streamed_per_token);
  }
  if (f.mtp_bytes > 0) text += bytes_line("multi-token-prediction layer", f.mtp_bytes);
  text += bytes_line("KV cache per token", f.kv_bytes_per_token);
  for (const auto& [context, bytes] : f.kv_at) {
    text += bytes_line(fmt::format("KV cache of {} tokens", context), bytes);
  }
  text += fmt::format("  {:.1f} thousand million multiply-adds per token\n",
                      static_cast<double>(f.macs_per_token) / 1e9);

  text += fmt::format("memory: {} ({}), context {} ({})\n", format_size(f.budget), f.budget_reason,
                      f.context, f.context_reason);
  if (f.plan) {
    for (const MemoryShare& share : f.plan->shares) text += bytes_line(share.name, share.bytes);
    if (f.plan->experts == ExpertsPlace::disk) {
      text += fmt::format("  {:.1f}% of the experts in memory\n", 100 * f.cached_share);
    }
  } else {
    text += "  " + f.refused + "\n";
  }
  text += bytes_line("least that this context takes", f.least_memory);
  text += f.largest_context > 0
              ? fmt::format("  the largest context that fits is {} tokens\n", f.largest_context)
              : std::string("  no context fits\n");

  const auto rate = [](const Rate& r, const char* unit) {
    return fmt::format("{:.2f} {} ({})", r.value / 1e9, unit, r.measured ? "measured" : "told");
  };
  text += fmt::format("rates: disk {}, memory {}, arithmetic {}\n", rate(rates.disk, "GB/s"),
                      rate(rates.memory, "GB/s"), rate(rates.operations, "GFLOP/s"));
  if (!f.decode) return text;
  text += fmt::format("  {:<22} {:>10} {:>10} {:>10}   {:<10} {:>14}\n", "least time for", "disk",
                      "memory", "arithmetic", "binding", "expected");
  text += pass_line("one token", *f.decode);
  for (const PassForecast& p : f.prefill) {
    text += pass_line(fmt::format("a prompt of {}", p.tokens), p);
  }
  text += "what would change a token's time\n";
  for (const WhatIf& change : f.what_if) {
    text += fmt::format("  {:<36} {:>12}", change.change,
                        change.seconds_per_token ? duration(*change.seconds_per_token) : "-");
    text += (change.note.empty() ? "" : "   " + change.note) + "\n";
  }
  if (f.packed_fits && f.experts > 0) {
    text += fmt::format("a copy of the experts ({}) {} on this disk; of everything ({}), it {}\n",
                        format_size(f.packed_bytes), *f.packed_fits ? "fits" : "does not fit",
                        format_size(f.payload_bytes),
                        f.whole_copy_fits.value_or(false) ? "does" : "does not");
  }
  if (f.experts > 0) {
    text += "experts are taken to be chosen equally often; real texts repeat some of them\n";
  }
  return text;
}

}  // namespace

int run_command(const PlanOptions& options, Output& output) {
  const Checkpoint checkpoint = Checkpoint::open(options.folder);
  const std::string path = checkpoint.folder() + "/config.json";
  const ModelConfig config = parse_model_config(read_text(path, 1 << 20), path);
  check_tensors(checkpoint, config);
  ForecastOptions asked;
  asked.ram = options.ram;
  asked.context = options.context;
  asked.threads = options.threads > 0 ? options.threads : system::processor_count();
  if (TextFolder::present(checkpoint.folder())) {
    asked.tokenizer_max_length =
        TextFolder::open(checkpoint.folder()).tokenizer().model_max_length();
  }
  asked.free_disk = system::free_disk_bytes(checkpoint.folder());
  if (*asked.free_disk == UINT64_MAX) asked.free_disk.reset();
  const Rates rates = find_rates(options, checkpoint, asked.threads);
  asked.rates = {rates.disk.value, rates.memory.value, rates.operations.value};
  const ModelForecast forecast = forecast_model(checkpoint, config, asked);
  output.write(options.output.json ? as_json(forecast, rates, options) : as_text(forecast, rates));
  return kExitOk;
}

}  // namespace fathom::cli
