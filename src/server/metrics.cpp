#include "server/metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace fathom::server {
namespace {

constexpr double kFirstToken[] = {0.001, 0.005, 0.01, 0.05, 0.1, 0.25, 0.5, 1,   2.5,
                                  5,     10,    20,   40,   80,  160,  320, 640, 1280};
constexpr double kNextToken[] = {0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25,
                                 0.5,    1,     2.5,    5,     10,   20,    40,   80};
constexpr double kLatency[] = {0.01, 0.05, 0.1, 0.5, 1,   2.5,  5,    10,    20,
                               40,   80,   160, 320, 640, 1280, 2560, 10240, 40960};
constexpr double kTokens[] = {1,    2,    5,    10,    20,    50,    100,    200,   500,
                              1000, 2000, 5000, 10000, 20000, 50000, 100000, 200000};

struct Kind {
  const char* name;  // "vllm:..." where vLLM has it, "fathom:..." else
  const char* type;
  const char* help;
};

void header(std::string& out, const Kind& kind) {
  fmt::format_to(std::back_inserter(out), "# HELP {} {}\n# TYPE {} {}\n", kind.name, kind.help,
                 kind.name, kind.type);
}

template <typename Value>
void line(std::string& out, const Kind& kind, const std::string& labels, Value value) {
  header(out, kind);
  fmt::format_to(std::back_inserter(out), "{}{{{}}} {}\n", kind.name, labels, value);
}

std::string escaped(const std::string& value) {
  std::string text;
  for (const char c : value) {
    if (c == '\\' || c == '"') text += '\\';
    if (c == '\n') {
      text += "\\n";
    } else {
      text += c;
    }
  }
  return text;
}

void scheduler_lines(std::string& out, const SchedulerStatus& status, const std::string& labels) {
  line(out, {"vllm:num_requests_running", "gauge", "Sequences in the next pass."}, labels,
       status.running);
  line(out, {"vllm:num_requests_waiting", "gauge", "Sequences that wait for room."}, labels,
       status.waiting);
  const auto total = static_cast<double>(status.pages_total);
  const auto in_use = static_cast<double>(status.pages_in_use);
  const auto kept = static_cast<double>(status.pages_kept);
  line(out,
       {"vllm:kv_cache_usage_perc", "gauge",
        "Share of the key-value cache in use (1 is all of it)."},
       labels, total > 0 ? (in_use - kept) / total : 0.0);
  line(out,
       {"fathom:kv_cache_kept_perc", "gauge",
        "Share of it that holds finished sequences for prompts that begin like them."},
       labels, total > 0 ? kept / total : 0.0);
  line(out,
       {"vllm:num_preemptions_total", "counter",
        "Sequences put back because the cache was full; they went on later."},
       labels, status.preemptions);
  line(out,
       {"vllm:spec_decode_num_draft_tokens_total", "counter",
        "Tokens drafted by the multi-token-prediction layer and verified."},
       labels, status.drafts);
  line(out, {"vllm:spec_decode_num_accepted_tokens_total", "counter", "Of them, accepted."}, labels,
       status.accepted);
  line(out, {"fathom:passes_total", "counter", "Passes through the layers."}, labels,
       status.passes);
  line(out, {"fathom:rows_total", "counter", "Rows (tokens and drafts) of all passes."}, labels,
       status.rows);
}

void model_lines(std::string& out, const ModelStats& stats, const std::string& labels) {
  line(out, {"fathom:memory_peak_bytes", "gauge", "Most memory that the process ever had."}, labels,
       stats.peak_memory);
  line(out, {"fathom:expert_hits_total", "counter", "Uses of an expert that was in memory."},
       labels, stats.expert_hits);
  line(out, {"fathom:expert_misses_total", "counter", "Uses of an expert that had to be read."},
       labels, stats.expert_misses);
  line(out, {"fathom:expert_slots", "gauge", "Experts that fit into memory; 0: all are there."},
       labels, stats.expert_slots);
  line(out, {"fathom:disk_read_bytes_total", "counter", "Bytes of experts read from disk."}, labels,
       stats.bytes_read);
  line(out,
       {"fathom:disk_busy_seconds_total", "counter",
        "Time with a read outstanding that somebody waits for; bytes by it are the throughput."},
       labels, stats.disk_seconds);
  line(out, {"fathom:disk_wait_seconds_total", "counter", "Of it, time with nothing to compute."},
       labels, stats.wait_seconds);
  line(out, {"fathom:disk_reads_repeated_total", "counter", "Reads that had to be repeated."},
       labels, stats.reads_repeated);
  line(out, {"fathom:lookahead_reads_total", "counter", "Experts read ahead."}, labels,
       stats.lookahead_reads);
  line(out, {"fathom:lookahead_used_total", "counter", "Of them, used."}, labels,
       stats.lookahead_used);
  const Kind parts = {"fathom:compute_seconds_total", "counter",
                      "Time in passes, by part; experts include their reading."};
  header(out, parts);
  const std::pair<const char*, double> shares[] = {{"attention", stats.attention_seconds},
                                                   {"experts", stats.experts_seconds},
                                                   {"mlp", stats.mlp_seconds},
                                                   {"head", stats.head_seconds}};
  for (const auto& [part, seconds] : shares) {
    fmt::format_to(std::back_inserter(out), "{}{{{},part=\"{}\"}} {}\n", parts.name, labels, part,
                   seconds);
  }
}

}  // namespace

void Histogram::observe(double value) {
  const auto at = std::lower_bound(bounds_.begin(), bounds_.end(), value) - bounds_.begin();
  counts_[static_cast<size_t>(at)].fetch_add(1, std::memory_order_relaxed);
  sum_.fetch_add(value, std::memory_order_relaxed);
}

void Histogram::write(std::string& out, const std::string& name, const std::string& labels) const {
  uint64_t count = 0;
  for (size_t i = 0; i <= bounds_.size(); ++i) {
    count += counts_[i].load(std::memory_order_relaxed);
    const std::string bound = i < bounds_.size() ? fmt::format("{}", bounds_[i]) : "+Inf";
    fmt::format_to(std::back_inserter(out), "{}_bucket{{{},le=\"{}\"}} {}\n", name, labels, bound,
                   count);
  }
  fmt::format_to(std::back_inserter(out), "{}_sum{{{}}} {}\n{}_count{{{}}} {}\n", name, labels,
                 sum_.load(std::memory_order_relaxed), name, labels, count);
}

Metrics::Metrics()
    : first_token_(kFirstToken),
      next_token_(kNextToken),
      latency_(kLatency),
      prompt_size_(kTokens),
      answer_size_(kTokens) {}

void Metrics::sample_finished(const GenerateResult& result, bool first_of_prompt) {
  const auto tokens = static_cast<uint64_t>(result.ids.size());
  if (first_of_prompt) {
    prompt_tokens_ += static_cast<uint64_t>(result.prompt_tokens);
    prompt_size_.observe(static_cast<double>(result.prompt_tokens));
  }
  generation_tokens_ += tokens;
  reasoning_tokens_ += static_cast<uint64_t>(result.reasoning_tokens);
  ++finished_[static_cast<size_t>(result.finish_reason)];
  answer_size_.observe(static_cast<double>(tokens));
  constexpr double kWeight = 0.2;  // of the newest
  const double seconds = result.prefill_seconds + result.decode_seconds;
  const double mean = mean_seconds();
  mean_seconds_ = mean == 0 ? seconds : mean + kWeight * (seconds - mean);
}

void Metrics::request_finished(const std::string& path, int status, double seconds) {
  if (path.ends_with("completions")) latency_.observe(seconds);
  const std::lock_guard lock(mutex_);
  ++answers_[{path, status}];
}

std::string Metrics::text(const RunnerStatus& status, const ModelInfo* info) const {
  std::string out;
  const std::string labels =
      fmt::format("model_name=\"{}\"", info != nullptr ? escaped(info->name) : "");
  scheduler_lines(out, status.scheduler, labels);
  line(out, {"vllm:prompt_tokens_total", "counter", "Tokens of prompts."}, labels,
       prompt_tokens_.load());
  line(out, {"vllm:generation_tokens_total", "counter", "Tokens generated."}, labels,
       generation_tokens_.load());
  line(out, {"fathom:reasoning_tokens_total", "counter", "Of them, tokens of the thought."}, labels,
       reasoning_tokens_.load());
  line(out, {"vllm:prefix_cache_queries_total", "counter", "Tokens of prompts looked up."}, labels,
       status.scheduler.prompt_tokens);
  line(out, {"vllm:prefix_cache_hits_total", "counter", "Of them, found in the cache."}, labels,
       status.scheduler.prefix_tokens);
  const Kind finished = {"vllm:request_success_total", "counter", "Answers, by how they ended."};
  header(out, finished);
  for (const FinishReason reason :
       {FinishReason::stop, FinishReason::length, FinishReason::cancelled, FinishReason::error}) {
    fmt::format_to(std::back_inserter(out), "{}{{{},finished_reason=\"{}\"}} {}\n", finished.name,
                   labels, reason == FinishReason::cancelled ? "abort" : finish_reason_name(reason),
                   finished_[static_cast<size_t>(reason)].load());
  }
  const std::pair<Kind, const Histogram*> histograms[] = {
      {{"vllm:time_to_first_token_seconds", "histogram", "From the request to its first token."},
       &first_token_},
      {{"vllm:inter_token_latency_seconds", "histogram", "From one token to the next."},
       &next_token_},
      {{"vllm:e2e_request_latency_seconds", "histogram", "Whole requests."}, &latency_},
      {{"vllm:request_prompt_tokens", "histogram", "Tokens of a prompt."}, &prompt_size_},
      {{"vllm:request_generation_tokens", "histogram", "Tokens of an answer."}, &answer_size_}};
  for (const auto& [kind, histogram] : histograms) {
    header(out, kind);
    histogram->write(out, kind.name, labels);
  }
  model_lines(out, status.model, labels);
  line(out, {"fathom:connections", "gauge", "Open connections."}, labels, connections_.load());
  line(out, {"fathom:refused_connections_total", "counter", "Connections beyond the limit."},
       labels, refused_connections_.load());
  const Kind answers = {"fathom:http_responses_total", "counter", "Answers by path and status."};
  header(out, answers);
  const std::lock_guard lock(mutex_);
  for (const auto& [key, count] : answers_) {
    fmt::format_to(std::back_inserter(out), "{}{{path=\"{}\",code=\"{}\"}} {}\n", answers.name,
                   key.first, key.second, count);
  }
  return out;
}

}  // namespace fathom::server
