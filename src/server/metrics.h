// Counters and histograms, and how Prometheus reads them.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <utility>

#include "fathom/model.h"
#include "server/model_runner.h"

namespace fathom::server {

// Observed from any thread without waiting.
class Histogram {
 public:
  static constexpr size_t kMostBounds = 20;
  explicit Histogram(std::span<const double> bounds) : bounds_(bounds) {}

  void observe(double value);
  // Lines "name_bucket{labels,le=...}", "name_sum", "name_count".
  void write(std::string& out, const std::string& name, const std::string& labels) const;

 private:
  std::span<const double> bounds_;
  std::array<std::atomic<uint64_t>, kMostBounds + 1> counts_{};
  std::atomic<double> sum_{0};
};

class Metrics {
 public:
  Metrics();

  // The owner's thread, for every token.
  void first_token(double seconds) { first_token_.observe(seconds); }
  void next_token(double seconds) { next_token_.observe(seconds); }

  // A sample that has come to its end, and a request.
  void sample_finished(const GenerateResult& result, bool first_of_prompt);
  void request_finished(const std::string& path, int status, double seconds);
  void connection_opened() { ++connections_; }
  void connection_closed() { --connections_; }
  void refused_connection() { ++refused_connections_; }

  // Mean seconds that a sample of late took; 0 where nothing is known.
  double mean_seconds() const { return mean_seconds_.load(std::memory_order_relaxed); }

  // Prometheus text. `info` is empty while the model is loading.
  std::string text(const RunnerStatus& status, const ModelInfo* info) const;

 private:
  Histogram first_token_;
  Histogram next_token_;
  Histogram latency_;
  Histogram prompt_size_;
  Histogram answer_size_;
  std::atomic<int64_t> connections_{0};
  std::atomic<uint64_t> refused_connections_{0};
  std::atomic<uint64_t> prompt_tokens_{0};
  std::atomic<uint64_t> generation_tokens_{0};
  std::atomic<uint64_t> reasoning_tokens_{0};
  std::array<std::atomic<uint64_t>, 4> finished_{};  // by FinishReason
  std::atomic<double> mean_seconds_{0};
  mutable std::mutex mutex_;
  std::map<std::pair<std::string, int>, uint64_t> answers_;  // by path and status
};

}  // namespace fathom::server
