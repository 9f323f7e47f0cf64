#include "server/generation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>
#include <variant>

#include "base/json.h"
#include "server/openai/api_error.h"
#include "server/server.h"

namespace fathom::server {
namespace {

// What OpenAI's older endpoint generates where the request does not say.
constexpr int64_t kCompletionTokens = 16;
// Tokens that come faster than this go out together, each as its own event: fifty times a second is
// more than anybody reads, and what a write costs is the most that a token costs here.
constexpr auto kBetweenWrites = std::chrono::milliseconds(20);
constexpr std::string_view kEventStream = "text/event-stream; charset=utf-8";

int retry_after(const ApiContext& context) {
  const RunnerOptions& runner = context.options.runner;
  const double rounds = static_cast<double>(context.runner.in_work()) /
                        static_cast<double>(std::max<int64_t>(1, runner.parallel));
  constexpr double kLeast = 1;
  constexpr double kMost = 120;
  return static_cast<int>(
      std::ceil(std::clamp(context.metrics.mean_seconds() * rounds, kLeast, kMost)));
}

}  // namespace

Generation::Generation(const ApiContext& context, Exchanged& exchanged, OpenAiRequest&& parsed,
                       std::string model_name)
    : context_(context), exchanged_(exchanged), parsed_(std::move(parsed)) {
  head_ = {parsed_.endpoint, exchanged.record.request_id, static_cast<int64_t>(std::time(nullptr)),
           std::move(model_name)};
  if (!parsed_.has_seed) parsed_.request.sampling.seed = random_seed();
  if (!parsed_.has_limit) {
    parsed_.request.max_tokens = context.options.max_tokens;
    if (parsed_.endpoint == Endpoint::completions) parsed_.request.max_tokens = kCompletionTokens;
  }
  choices_.resize(parsed_.prompts.size() * static_cast<size_t>(parsed_.samples));
  left_ = choices_.size();
  exchange_ = std::make_shared<Exchange>(exchanged.responder.wake_event(),
                                         context.options.limits.waiting_bytes, parsed_.stream);
  exchanged.record.model = head_.model;
  exchanged.record.seed = parsed_.request.sampling.seed;
}

void Generation::run() {
  submit();
  try {
    pump();
  } catch (...) {
    exchange_->cancel();
    fill_record();
    throw;
  }
  if (!over_) {
    if (parsed_.stream) {
      end_stream();
    } else {
      send_whole();
    }
  }
  fill_record();
}

void Generation::submit() {
  std::vector<ModelRunner::Job> jobs;
  for (size_t i = 0; i < parsed_.prompts.size(); ++i) {
    ModelRunner::Job job;
    job.request = parsed_.request;
    job.request.prompt = std::move(parsed_.prompts[i]);
    job.samples = parsed_.samples;
    job.prompt = static_cast<int64_t>(i);
    job.exchange = exchange_;
    jobs.push_back(std::move(job));
  }
  exchanged_.responder.body_is_read();
  if (context_.draining.load()) {
    throw ApiError(503, "the server is going down", {{}, "shutting_down"});
  }
  if (!context_.runner.submit(std::move(jobs))) {
    exchanged_.responder.add_header("Retry-After", std::to_string(retry_after(context_)));
    throw ApiError(429, "the queue is full; try again later", {{}, "queue_full"});
  }
}

// Waits for events, the client's leaving, or the time for a comment.
Socket::Result Generation::wait() const {
  const Responder& responder = exchanged_.responder;
  const auto next_write = last_step_ + kBetweenWrites;
  if (Clock::now() < next_write && responder.pause(next_write) == Socket::Result::closed) {
    return Socket::Result::closed;
  }
  return responder.wait(Clock::now() + responder.limits().keep_alive);
}

// Until all is there, or nobody wants it any more.
void Generation::pump() {
  Responder& responder = exchanged_.responder;
  while (left_ > 0 && !over_) {
    switch (wait()) {
      case Socket::Result::timeout:
        if (!parsed_.stream) break;
        begin_stream();
        out_ += ": waiting\n\n";
        flush();
        break;
      case Socket::Result::woken: {
        std::deque<ModelEvent> events = exchange_->take();
        for (ModelEvent& event : events) {
          if (!take(event)) break;
        }
        if (exchange_->overflowed()) {
          exchanged_.record.finish = "slow";
          over_ = true;
        } else {
          flush();
        }
        break;
      }
      default:
        exchanged_.record.finish = "gone";
        over_ = true;
        break;
    }
    if (responder.broken() && !over_) {
      exchanged_.record.finish = "slow";
      over_ = true;
    }
  }
  if (left_ > 0) exchange_->cancel();
  if (over_) responder.close_after();
}

bool Generation::take(ModelEvent& event) {
  if (auto* step_event = std::get_if<StepEvent>(&event)) {
    step(*step_event);
  } else if (auto* finish_event = std::get_if<FinishEvent>(&event)) {
    finish(*finish_event);
  } else if (auto* refused = std::get_if<RefusedEvent>(&event)) {
    fail(refusal(refused->error));
  } else if (++accepted_ == parsed_.prompts.size() && parsed_.stream) {
    begin_stream();
  }
  return !over_;
}

// What is wrong with the form of an answer is told of the schema; here it is about the field that
// asked for it.
ApiError Generation::refusal(const Error& error) const {
  const ApiError refused = api_error_of(error);
  constexpr const char* kForm = "response_format";
  const bool of_another_field = refused.param() && refused.param() != kForm;
  if (parsed_.format_field.empty() || refused.status() != 400 || of_another_field) return refused;
  const std::string front = refused.param() ? "" : parsed_.format_field + ": ";
  return {400, front + error.what(), {parsed_.format_field, {}}};
}

void Generation::fail(const ApiError& error) {
  exchanged_.record.finish = "error";
  exchange_->cancel();
  over_ = true;
  if (!parsed_.stream || !exchanged_.responder.started()) throw error;
  exchanged_.record.problem = error.what();  // from here on only the machine can be at fault
  put_event(error.body());
  flush();
  exchanged_.responder.end_stream();
}

void Generation::begin_stream() {
  if (exchanged_.responder.started()) return;
  exchanged_.responder.begin_stream(kEventStream);
  chunk_front_ = answer_object(head_, true).str();
  chunk_front_.pop_back();
  for (size_t i = 0; i < choices_.size(); ++i) {
    if (parsed_.endpoint == Endpoint::completions) {
      const Echo* echo = parsed_.echo_of(prompt_of(i));
      if (echo == nullptr) continue;
      put_chunk({static_cast<int64_t>(i), json_string(echo->text), "null", nullptr});
      continue;
    }
    put_chunk({static_cast<int64_t>(i), R"({"role":"assistant"})", "null", nullptr});
  }
}

void Generation::flush() {
  if (out_.empty() || !exchanged_.responder.started()) return;
  exchanged_.responder.write(out_);
  out_.clear();
}

void Generation::put_event(const std::string& json) { out_ += "data: " + json + "\n\n"; }

// Written for every token of every stream: in one go.
void Generation::put_chunk(const Chunk& chunk) {
  fmt::format_to(
      std::back_inserter(out_),
      "data: "
      "{},\"choices\":[{{\"index\":{},\"{}\":{},\"logprobs\":{},\"finish_reason\":{}}}]}}\n\n",
      chunk_front_, chunk.index, parsed_.endpoint == Endpoint::completions ? "text" : "delta",
      chunk.delta, chunk.logprobs,
      chunk.finish_reason != nullptr ? json_string(chunk.finish_reason) : "null");
}

void Generation::step(const StepEvent& event) {
  begin_stream();
  last_step_ = Clock::now();
  if (!exchanged_.record.first_token_seconds) {
    exchanged_.record.first_token_seconds =
        std::chrono::duration<double>(Clock::now() - began_).count();
  }
  if (parsed_.endpoint == Endpoint::completions) {
    completion_step(event);
  } else {
    chat_step(event);
  }
}

void Generation::completion_step(const StepEvent& event) {
  const GenerateStep& step = event.step;
  const size_t index = index_of(event.prompt, step.sample);
  Chunk chunk;
  chunk.index = static_cast<int64_t>(index);
  chunk.delta = json_string(step.content);
  if (step.logprobs) {
    CompletionLogprobs& logprobs = choices_[index].logprobs;
    logprobs.add({&*step.logprobs, 1});
    chunk.logprobs = logprobs.take();
  } else if (step.content.empty()) {
    return;
  }
  put_chunk(chunk);
}

// A chunk for each part, so that none has a thought and an answer; the first one tells the
// probabilities, also where its text is still held back.
void Generation::chat_step(const StepEvent& event) {
  const GenerateStep& step = event.step;
  const auto index = static_cast<int64_t>(index_of(event.prompt, step.sample));
  std::vector<std::string> deltas;
  if (!step.reasoning.empty()) {
    deltas.push_back(JsonObject().text("reasoning_content", step.reasoning).str());
  }
  if (!step.content.empty()) deltas.push_back(JsonObject().text("content", step.content).str());
  if (std::string tools = tool_delta(head_, index, step); !tools.empty()) {
    deltas.push_back(std::move(tools));
  }
  std::string logprobs = "null";
  if (step.logprobs) {
    logprobs = chat_logprobs({&*step.logprobs, 1});
    if (deltas.empty()) deltas.emplace_back("{}");
  }
  for (std::string& delta : deltas) {
    put_chunk({index, std::move(delta), std::exchange(logprobs, "null"), nullptr});
  }
}

void Generation::finish(FinishEvent& event) {
  if (event.result.error) return fail(api_error_of(*event.result.error));
  if (event.result.finish_reason == FinishReason::cancelled) {
    return fail({503, "the server is going down", {{}, "shutting_down"}});
  }
  --left_;
  const size_t index = index_of(event.prompt, event.sample);
  usage_.add(event.result, event.sample == 0);
  exchanged_.record.finish = finish_reason_text(event.result);
  if (parsed_.stream) {
    begin_stream();
    put_chunk({static_cast<int64_t>(index),
               parsed_.endpoint == Endpoint::completions ? "\"\"" : "{}", "null",
               finish_reason_text(event.result)});
  } else {
    choices_[index].result = std::move(event.result);
  }
}

void Generation::end_stream() {
  if (parsed_.include_usage) {
    out_ += "data: " + chunk_front_ + ",\"choices\":[],\"usage\":" + usage_.json().str() + "}\n\n";
  }
  out_ += "data: [DONE]\n\n";
  flush();
  exchanged_.responder.end_stream();
}

void Generation::send_whole() {
  std::string choices = "[";
  for (size_t i = 0; i < choices_.size(); ++i) {
    if (i > 0) choices += ',';
    const ChoiceForm form = {static_cast<int64_t>(i), parsed_.request.logprobs.has_value(),
                             parsed_.echo_of(prompt_of(i))};
    choices += choice_json(head_, form, *choices_[i].result);
  }
  exchanged_.responder.send(200, "application/json",
                            answer_object(head_, false)
                                .raw("choices", choices + "]")
                                .object("usage", usage_.json())
                                .str());
}

void Generation::fill_record() {
  AccessRecord& record = exchanged_.record;
  record.prompt_tokens = usage_.prompt_tokens;
  record.cached_tokens = usage_.cached_tokens;
  record.completion_tokens = usage_.completion_tokens;
  record.reasoning_tokens = usage_.reasoning_tokens;
}

namespace {

void generate(const Api& api, Exchanged& exchanged, Endpoint endpoint) {
  const Model& model = api.model();
  OpenAiRequest parsed = [&] {
    const nlohmann::ordered_json body = parse_ordered_json(exchanged.request.body, "body");
    return parse_openai_request(endpoint, body, model);
  }();
  exchanged.request.body = {};
  std::string name = api.model_name(parsed.model);
  Generation(api.context(), exchanged, std::move(parsed), std::move(name)).run();
}

}  // namespace

void Api::chat_completions(Exchanged& exchanged) {
  generate(*this, exchanged, Endpoint::chat_completions);
}

void Api::completions(Exchanged& exchanged) { generate(*this, exchanged, Endpoint::completions); }

}  // namespace fathom::server
