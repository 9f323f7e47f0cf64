#include "cli/stats.h"

#include <fmt/core.h>

#include "base/units.h"

namespace fathom::cli {
namespace {

double ratio(double a, double b) { return b > 0 ? a / b : 0; }

}  // namespace

std::string stats_text(const ModelStats& stats) {
  std::string text = fmt::format("memory   peak {}", format_size(stats.peak_memory));
  if (stats.swap > 0) text += fmt::format(", {} swapped out", format_size(stats.swap));
  text += fmt::format(
      "\ntime     attention {:.2f} s, routed experts {:.2f} s (computing {:.2f}, waiting for the "
      "disk {:.2f}), dense and shared {:.2f} s, head {:.2f} s",
      stats.attention_seconds, stats.experts_seconds, stats.compute_seconds, stats.wait_seconds,
      stats.mlp_seconds, stats.head_seconds);
  if (stats.expert_slots == 0) return text;
  const double uses = static_cast<double>(stats.expert_hits + stats.expert_misses);
  text += fmt::format("\nexperts  {} in memory ({}, {}); asked for {} times, {:.1f}% of them there",
                      stats.expert_slots, format_size(stats.slot_bytes), stats.cache_policy,
                      stats.expert_hits + stats.expert_misses,
                      100 * ratio(static_cast<double>(stats.expert_hits), uses));
  text += fmt::format("\ndisk     {} read", format_size(stats.bytes_read));
  if (stats.disk_seconds > 0) {
    text += fmt::format(", {}/s while somebody waited",
                        format_size(static_cast<uint64_t>(
                            ratio(static_cast<double>(stats.bytes_read), stats.disk_seconds))));
  }
  if (stats.reads_repeated > 0) text += fmt::format(", {} reads repeated", stats.reads_repeated);
  text += fmt::format("; read ahead: {} experts, {} of them used, {} at the moment",
                      stats.lookahead_reads, stats.lookahead_used, stats.lookahead ? "on" : "off");
  return text;
}

JsonObject stats_json(const ModelStats& stats) {
  return JsonObject()
      .natural("peak_memory", stats.peak_memory)
      .natural("swap", stats.swap)
      .natural("expert_slots", stats.expert_slots)
      .natural("slot_bytes", stats.slot_bytes)
      .text("cache_policy", stats.cache_policy)
      .natural("expert_hits", stats.expert_hits)
      .natural("expert_misses", stats.expert_misses)
      .natural("bytes_read", stats.bytes_read)
      .natural("reads_repeated", stats.reads_repeated)
      .natural("lookahead_reads", stats.lookahead_reads)
      .natural("lookahead_used", stats.lookahead_used)
      .boolean("lookahead", stats.lookahead)
      .number("disk_seconds", stats.disk_seconds)
      .number("wait_seconds", stats.wait_seconds)
      .number("compute_seconds", stats.compute_seconds)
      .number("attention_seconds", stats.attention_seconds)
      .number("experts_seconds", stats.experts_seconds)
      .number("mlp_seconds", stats.mlp_seconds)
      .number("head_seconds", stats.head_seconds);
}

}  // namespace fathom::cli
