// The public library: Model and Cache over the engine.
#include "engine/engine.h"
#include "fathom/model.h"

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
}

const char* finish_reason_name(FinishReason reason) {
  switch (reason) {
    case FinishReason::stop:
      return "stop";
    case FinishReason::length:
      return "length";
    case FinishReason::cancelled:
      return "cancelled";
  }
  return "";
}

struct Model::Impl {
  explicit Impl(const LoadOptions& options) : engine(options) {}
  Engine engine;
};

Model Model::load(const LoadOptions& options) { return Model(std::make_unique<Impl>(options)); }
Model::Model(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Model::Model(Model&&) noexcept = default;
Model& Model::operator=(Model&&) noexcept = default;
Model::~Model() = default;

const ModelInfo& Model::info() const { return impl_->engine.info(); }
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

Prompt Model::render(std::string_view messages_json, bool add_generation_prompt) const {
  return impl_->engine.text_or_fail().render(messages_json, add_generation_prompt);
}

ForwardOutput Model::forward(const ForwardInput& input) {
  Cache own;
  return fathom::forward(impl_->engine, input, *(input.cache ? *input.cache : own).state_);
}

GenerateResult Model::generate(const GenerateRequest& request) {
  Cache own;
  return fathom::generate(impl_->engine, request, *(request.cache ? *request.cache : own).state_);
}

}  // namespace fathom
