#include "server/model_runner.h"

#include <new>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "server/metrics.h"

namespace fathom::server {
namespace {

// Reading the process's memory costs more than a token of a small model.
constexpr auto kBetweenStatus = std::chrono::milliseconds(200);

size_t bytes_of(const std::optional<PositionLogprobs>& logprobs) {
  if (!logprobs) return 0;
  size_t bytes = logprobs->chosen.bytes.size();
  for (const TokenLogprob& token : logprobs->top) bytes += sizeof token + token.bytes.size();
  return bytes;
}

size_t bytes_of(const GenerateStep& step) {
  size_t bytes = sizeof(StepEvent) + step.text.size() + step.reasoning.size() +
                 step.content.size() + bytes_of(step.logprobs);
  for (const ToolEvent& event : step.tools) bytes += sizeof event + event.text.size();
  return bytes;
}

// When each sample of a request got its last token.
class TokenTimes {
 public:
  explicit TokenTimes(int64_t samples) : last_(static_cast<size_t>(samples)) {}
  void token(int64_t sample, Metrics& metrics) {
    const auto now = Clock::now();
    Clock::time_point& last = last_[static_cast<size_t>(sample)];
    if (last == Clock::time_point{}) {
      metrics.first_token(std::chrono::duration<double>(now - asked_).count());
    } else {
      metrics.next_token(std::chrono::duration<double>(now - last).count());
    }
    last = now;
  }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point asked_ = Clock::now();
  std::vector<Clock::time_point> last_;
};

}  // namespace

ModelRunner::ModelRunner(std::function<Model()> load, RunnerOptions options, Metrics& metrics)
    : options_(options), metrics_(metrics) {
  thread_ = std::thread([this, load = std::move(load)] { run(load); });
}

ModelRunner::~ModelRunner() {
  cancel_all();
  thread_.join();
}

RunnerStatus ModelRunner::status() const {
  const std::lock_guard lock(mutex_);
  return status_;
}

void ModelRunner::wait_loaded() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return status_.state != RunnerStatus::State::loading; });
}

void ModelRunner::cancel_all() {
  const std::lock_guard lock(mutex_);
  stop_ = true;
  stop_token_.cancel();
  changed_.notify_all();
}

bool ModelRunner::submit(std::vector<Job> jobs) {
  int64_t samples = 0;
  for (const Job& job : jobs) samples += job.samples;
  const std::lock_guard lock(mutex_);
  if (stop_) return false;
  // One that asks for more than there is room for is taken where nothing else is there.
  const int64_t before = in_work_.load(std::memory_order_relaxed);
  if (before > 0 && before + samples > options_.parallel + options_.most_waiting) return false;
  in_work_.fetch_add(samples, std::memory_order_relaxed);
  for (Job& job : jobs) jobs_.push_back(std::move(job));
  changed_.notify_all();
  return true;
}

void ModelRunner::run(const std::function<Model()>& load) {
  std::string problem;
  try {
    Model model = load();
    serve(model);
  } catch (const std::bad_alloc&) {
    problem = "out of memory";
  } catch (const std::exception& error) {
    problem = error.what();
  }
  ready_.store(nullptr, std::memory_order_release);
  std::deque<Job> left;
  {
    const std::lock_guard lock(mutex_);
    status_.state = problem.empty() ? RunnerStatus::State::stopped : RunnerStatus::State::failed;
    status_.problem = problem;
    stop_ = true;
    left = std::exchange(jobs_, {});
    changed_.notify_all();
  }
  for (const Job& job : left) {
    job.exchange->push(RefusedEvent{Error(ErrorKind::cancelled, "the server is going down")}, 0);
  }
}

void ModelRunner::serve(Model& model) {
  SchedulerOptions options;
  options.parallel = options_.parallel;
  options.between_layers = [this] {
    take_jobs();
    publish(false);
  };
  Scheduler scheduler(model, options);
  scheduler_ = &scheduler;
  model_ = &model;
  {
    const std::lock_guard lock(mutex_);
    status_.state = RunnerStatus::State::ready;
    status_.scheduler = scheduler.status();
    status_.model = model.stats();
    changed_.notify_all();
  }
  ready_.store(&model, std::memory_order_release);
  while (true) {
    take_jobs();
    bool more = true;
    try {
      more = scheduler.step(&stop_token_);
    } catch (const std::exception& error) {
      // A pass answers for its own errors; this is one of the scheduler. Nobody is left waiting.
      log::warning("all requests are given up: {}", error.what());
      scheduler.cancel_all();
    }
    publish(!more);
    std::unique_lock lock(mutex_);
    if (stop_) break;
    if (!more) changed_.wait(lock, [this] { return stop_ || !jobs_.empty(); });
  }
  scheduler.cancel_all();
  take_jobs();
  scheduler.cancel_all();
  publish(true);
}

void ModelRunner::take_jobs() {
  std::deque<Job> jobs;
  {
    const std::lock_guard lock(mutex_);
    if (jobs_.empty()) return;
    jobs = std::exchange(jobs_, {});
  }
  for (Job& job : jobs) add(std::move(job));
}

void ModelRunner::add(Job&& job) {
  const std::shared_ptr<Exchange> exchange = job.exchange;
  const int64_t prompt = job.prompt;
  const int64_t samples = job.samples;
  job.request.cancel = &exchange->cancel_token();
  job.request.on_step = [this, exchange, prompt,
                         times = TokenTimes(samples)](const GenerateStep& step) mutable {
    if (step.id >= 0) times.token(step.sample, metrics_);
    if (exchange->wants_steps()) exchange->push(StepEvent{prompt, step}, bytes_of(step));
    return true;
  };
  try {
    // The exchange lives in both functions, and with it the request's cancel token.
    scheduler_->add(std::move(job.request), samples,
                    [this, exchange, prompt](int64_t sample, GenerateResult&& result) {
                      in_work_.fetch_sub(1, std::memory_order_relaxed);
                      metrics_.sample_finished(result, sample == 0);
                      // Results come once for each sample, whatever the reader takes: no bytes.
                      exchange->push(FinishEvent{prompt, sample, std::move(result)}, 0);
                    });
  } catch (const Error& error) {
    in_work_.fetch_sub(samples, std::memory_order_relaxed);
    exchange->push(RefusedEvent{error}, 0);
    return;
  } catch (const std::bad_alloc&) {
    in_work_.fetch_sub(samples, std::memory_order_relaxed);
    exchange->push(RefusedEvent{Error(ErrorKind::io, "out of memory")}, 0);
    return;
  }
  exchange->push(AcceptedEvent{}, 0);
}

void ModelRunner::publish(bool now) {
  const auto time = std::chrono::steady_clock::now();
  if (!now && time - published_ < kBetweenStatus) return;
  published_ = time;
  const ModelStats stats = model_->stats();
  const SchedulerStatus scheduler = scheduler_->status();
  const std::lock_guard lock(mutex_);
  status_.scheduler = scheduler;
  status_.model = stats;
}

}  // namespace fathom::server
