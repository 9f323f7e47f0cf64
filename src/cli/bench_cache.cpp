// bench cache: how often a cache of experts would have hit, by a recorded trace.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <limits>

#include "base/log.h"
#include "base/progress.h"
#include "base/system.h"
#include "cli/commands.h"
#include "cli/json_output.h"
#include "experts/cache_simulation.h"

namespace fathom::cli {
namespace {

// What caches of ordinary machines hold of a large model.
constexpr std::array kShares = {0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5};
constexpr int64_t kLeastSlots = 2;

std::vector<int64_t> usual_slots(int64_t experts) {
  std::vector<int64_t> slots;
  for (const double share : kShares) {
    const auto count = static_cast<int64_t>(share * static_cast<double>(experts) + 0.5);
    slots.push_back(std::max(kLeastSlots, count));
  }
  slots.erase(std::unique(slots.begin(), slots.end()), slots.end());
  return slots;
}

struct TraceSummary {
  uint64_t rows = 0;
  int64_t layers = 0;
  int64_t experts = 0;  // of all layers
  double closest_group = std::numeric_limits<double>::infinity();
  double closest_expert = std::numeric_limits<double>::infinity();
};

TraceSummary summary_of(const RouteTrace& trace) {
  TraceSummary s;
  for (const RouteTrace::Visit& visit : trace.visits) s.rows += static_cast<uint64_t>(visit.rows);
  const CacheShape shape = cache_shape_of(trace, kLeastSlots);
  s.layers = shape.moe_layers;
  s.experts = shape.moe_layers * shape.experts_per_layer;
  for (const float m : trace.group_margins) s.closest_group = std::min<double>(s.closest_group, m);
  for (const float m : trace.expert_margins) {
    s.closest_expert = std::min<double>(s.closest_expert, m);
  }
  return s;
}

struct SlotsResult {
  int64_t slots = 0;
  std::vector<double> rates;  // in the order of all_cache_policies()
  double optimum = 0;
};

std::vector<SlotsResult> simulate(const RouteTrace& trace, const std::vector<int64_t>& slots) {
  const auto policies = all_cache_policies();
  Progress progress("replaying", slots.size() * (policies.size() + 1), ProgressUnit::items);
  std::vector<SlotsResult> results;
  for (const int64_t count : slots) {
    SlotsResult& result = results.emplace_back();
    result.slots = count;
    for (const CachePolicyKind policy : policies) {
      result.rates.push_back(simulate_cache(trace, policy, count).rate());
      progress.add(1);
    }
    result.optimum = simulate_optimum(trace, count).rate();
    progress.add(1);
  }
  return results;
}

std::string json_of(const TraceSummary& summary, const RouteTrace& trace,
                    const std::vector<SlotsResult>& results) {
  std::string list = "[";
  for (const SlotsResult& r : results) {
    JsonObject rates;
    for (size_t p = 0; p < r.rates.size(); ++p) {
      rates.number(cache_policy_name(all_cache_policies()[p]), r.rates[p]);
    }
    if (list.size() > 1) list += ",";
    list += JsonObject()
                .integer("slots", r.slots)
                .number("share", static_cast<double>(r.slots) /
                                     static_cast<double>(std::max<int64_t>(summary.experts, 1)))
                .object("hit_rate", rates)
                .number("optimum", r.optimum)
                .str();
  }
  return JsonObject()
             .natural("visits", trace.visits.size())
             .natural("rows", summary.rows)
             .natural("asked", trace.asked.size())
             .integer("moe_layers", summary.layers)
             .integer("experts", summary.experts)
             .number("closest_group_margin", summary.closest_group)
             .number("closest_expert_margin", summary.closest_expert)
             .raw("results", list + "]")
             .str() +
         "\n";
}

}  // namespace

int run_command(const BenchCacheOptions& options, Output& output) {
  // A simulation has no way to stop in the middle: Ctrl-C ends the program.
  system::on_interrupt(nullptr);
  const RouteTrace trace = read_route_trace(options.trace);
  const TraceSummary summary = summary_of(trace);
  const std::vector<SlotsResult> results =
      simulate(trace, options.slots.empty() ? usual_slots(summary.experts) : options.slots);
  if (options.output.json) {
    output.write(json_of(summary, trace, results));
    return kExitOk;
  }
  output.write(fmt::format(
      "{} visits of {} MoE layers, {} rows; {} experts asked for, {} there are\n"
      "closest choice: groups {:.3g}, experts {:.3g}\n\nhit rate\n{:>8} {:>7}",
      trace.visits.size(), summary.layers, summary.rows, trace.asked.size(), summary.experts,
      summary.closest_group, summary.closest_expert, "slots", "share"));
  for (const CachePolicyKind policy : all_cache_policies()) {
    output.write(fmt::format(" {:>9}", cache_policy_name(policy)));
  }
  output.write(fmt::format(" {:>9}\n", "optimum"));
  for (const SlotsResult& r : results) {
    output.write(fmt::format("{:>8} {:>6.1f}%", r.slots,
                             100 * static_cast<double>(r.slots) /
                                 static_cast<double>(std::max<int64_t>(summary.experts, 1))));
    for (const double rate : r.rates) output.write(fmt::format(" {:>8.2f}%", 100 * rate));
    output.write(fmt::format(" {:>8.2f}%\n", 100 * r.optimum));
  }
  return kExitOk;
}

}  // namespace fathom::cli
