// The one thread that owns the model and its scheduler.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "fathom/model.h"
#include "fathom/scheduler.h"
#include "server/exchange.h"

namespace fathom::server {

class Metrics;

struct RunnerOptions {
  int64_t parallel = 8;       // sequences at once
  int64_t most_waiting = 64;  // samples that may wait beyond them
};

// How the model is doing, as of the last pass.
struct RunnerStatus {
  enum class State { loading, ready, failed, stopped };
  State state = State::loading;
  std::string problem;  // of failed
  SchedulerStatus scheduler;
  ModelStats model;
};

class ModelRunner {
 public:
  // A request on its way to the scheduler.
  struct Job {
    GenerateRequest request;
    int64_t samples = 1;
    int64_t prompt = 0;  // its number in the events
    std::shared_ptr<Exchange> exchange;
  };

  // Starts to load at once.
  ModelRunner(std::function<Model()> load, RunnerOptions options, Metrics& metrics);
  ~ModelRunner();  // cancels everything
  ModelRunner(const ModelRunner&) = delete;
  ModelRunner& operator=(const ModelRunner&) = delete;

  // nullptr until it is loaded; const calls about text and info() are for any thread.
  const Model* model() const { return ready_.load(std::memory_order_acquire); }
  RunnerStatus status() const;
  // Waits until it is loaded or has failed.
  void wait_loaded();

  // Samples that are running or wait.
  int64_t in_work() const { return in_work_.load(std::memory_order_relaxed); }
  // False where the queue is full. All jobs of a request are taken or none.
  bool submit(std::vector<Job> jobs);
  // Everything ends, as cancelled; nothing is taken any more.
  void cancel_all();

 private:
  void run(const std::function<Model()>& load);
  void serve(Model& model);
  void take_jobs();
  void add(Job&& job);
  void publish(bool now);

  const RunnerOptions options_;
  Metrics& metrics_;
  std::atomic<const Model*> ready_{nullptr};
  std::atomic<int64_t> in_work_{0};

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Job> jobs_;
  bool stop_ = false;
  CancelToken stop_token_;
  RunnerStatus status_;

  // The owner's thread only.
  Scheduler* scheduler_ = nullptr;
  Model* model_ = nullptr;
  std::chrono::steady_clock::time_point published_{};

  std::thread thread_;
};

}  // namespace fathom::server
