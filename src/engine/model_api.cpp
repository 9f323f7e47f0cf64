// The public library: Model and Cache over the engine.
#include <algorithm>
#include <utility>

#include "engine/engine.h"
#include "engine/generate.h"
#include "engine/model_impl.h"
#include "engine/scheduler.h"
#include "fathom/model.h"
#include "fathom/scheduler.h"

namespace fathom {

Cache::Cache() : state_(std::make_unique<CacheState>()) {}
Cache::Cache(const Cache& other) : state_(std::make_unique<CacheState>(*other.state_)) {}
Cache::Cache(Cache&&) noexcept = default;
Cache& Cache::operator=(Cache other) noexcept {
  std::swap(state_, other.state_);
  return *this;
}
Cache::~Cache() = default;

int64_t Cache::length() const { return state_->sequence ? state_->sequence->length() : 0; }

void Cache::truncate(int64_t length) {
  if (length < 0 || length > this->length()) {
    throw Error(ErrorKind::usage, "cache: cannot be cut to " + std::to_string(length) + " of " +
                                      std::to_string(this->length()) + " tokens");
  }
  if (state_->sequence) state_->sequence->truncate(length);
  if (state_->ids.size() > static_cast<size_t>(length))
    state_->ids.resize(static_cast<size_t>(length));
  state_->mtp_length = std::min(state_->mtp_length, std::max<int64_t>(0, length - 1));
}

const char* finish_reason_name(FinishReason reason) {
  switch (reason) {
    case FinishReason::stop:
      return "stop";
    case FinishReason::length:
      return "length";
    case FinishReason::cancelled:
      return "cancelled";
    case FinishReason::error:
      return "error";
  }
  return "";
}

Model Model::load(const LoadOptions& options) { return Model(std::make_unique<Impl>(options)); }
Model::Model(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Model::Model(Model&&) noexcept = default;
Model& Model::operator=(Model&&) noexcept = default;
Model::~Model() = default;

const ModelInfo& Model::info() const { return impl_->engine.info(); }
ModelStats Model::stats() const { return impl_->engine.stats(); }
bool Model::has_tokenizer() const { return impl_->engine.text() != nullptr; }

std::vector<int32_t> Model::tokenize(std::string_view text, bool control_tokens) const {
  return impl_->engine.text_or_fail().tokenizer().encode(
      text, control_tokens ? ControlTokens::parse : ControlTokens::as_text);
}

Prompt Model::raw_prompt(std::string_view text) const {
  return impl_->engine.text_or_fail().raw_prompt(text);
}

std::string Model::detokenize(std::span<const int32_t> ids) const {
  return impl_->engine.text_or_fail().tokenizer().decode(ids);
}

Prompt Model::render(std::string_view messages_json, const RenderOptions& options) const {
  return impl_->engine.text_or_fail().render(messages_json, options);
}

ForwardOutput Model::forward(const ForwardInput& input) {
  Cache own;
  return fathom::forward(impl_->engine, input, *(input.cache ? *input.cache : own).state_);
}

GenerateResult Model::generate(const GenerateRequest& request) {
  return fathom::generate(impl_->parts, request);
}

std::vector<GenerateResult> Model::generate_samples(const GenerateRequest& request, int64_t count,
                                                    int64_t parallel) {
  return fathom::generate_samples(impl_->parts, request, count, parallel);
}

std::vector<GenerateResult> Model::generate(std::span<const GenerateRequest> requests,
                                            int64_t parallel) {
  return generate_each(impl_->parts, requests, parallel);
}

struct Scheduler::Impl {
  SequenceScheduler scheduler;
};

Scheduler::Scheduler(Model& model, SchedulerOptions options)
    : impl_(new Impl{SequenceScheduler(model.impl_->parts, std::move(options))}) {}
Scheduler::~Scheduler() = default;

uint64_t Scheduler::add(GenerateRequest request, int64_t samples, OnFinish on_finish) {
  return impl_->scheduler.add(std::move(request), samples, std::move(on_finish));
}
void Scheduler::cancel(uint64_t id) { impl_->scheduler.cancel(id); }
void Scheduler::cancel_all() { impl_->scheduler.cancel_all(); }
bool Scheduler::step(const CancelToken* stop) { return impl_->scheduler.step(stop); }
SchedulerStatus Scheduler::status() const { return impl_->scheduler.status(); }

}  // namespace fathom
