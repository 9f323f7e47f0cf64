#include "engine/engine.h"

#include <chrono>
#include <filesystem>

#include "base/error.h"
#include "base/system.h"
#include "engine/context_length.h"

namespace fathom {

Engine::Engine(const LoadOptions& options) {
  const auto began = std::chrono::steady_clock::now();
  const std::string folder = resolve_model_folder(options.folder);
  info_.folder = folder;
  info_.text_folder = folder;
  info_.name = std::filesystem::weakly_canonical(options.folder).filename().string();
  info_.kv = options.kv;
  info_.weights = options.weights;
  info_.head = options.head;
  info_.embed = options.embed;
  open_files(folder, options);
  const ModelShape& shape = backend_->shape();
  info_.architecture = shape.architecture;
  info_.vocab_size = shape.vocab_size;
  info_.hidden_size = shape.hidden_size;
  info_.num_hidden_layers = shape.num_hidden_layers;
  info_.context =
      decide_context(shape, text_ ? text_->tokenizer().model_max_length() : std::nullopt,
                     options.context, backend_->positions_source());
  backend_->load(options, &info_);
  system::trim_heap();  // the headers are gone
  info_.load_seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
}

ModelStats Engine::stats() const {
  const system::ProcessMemory memory = system::process_memory();
  ModelStats stats;
  stats.peak_memory = memory.peak;
  stats.swap = memory.swapped;
  backend_->count(&stats);
  const PassTimes& times = backend_->decoder().times();
  stats.attention_seconds = times.attention;
  stats.experts_seconds = times.experts;
  stats.mlp_seconds = times.mlp;
  stats.head_seconds = times.head;
  return stats;
}

void Engine::open_files(const std::string& folder, const LoadOptions& options) {
  ProblemCollector problems;
  problems.attempt([&] { backend_ = open_backend(folder, options); });
  if (backend_) info_.text_folder = backend_->text_folder(folder);
  const std::string& text_folder = info_.text_folder;
  problems.attempt([&] { generation_config_ = read_generation_config(text_folder); });
  if (backend_ && generation_config_.eos_token_ids.empty()) {
    generation_config_.eos_token_ids = backend_->eos_ids();
  }
  problems.attempt([&] {
    if (options.needs != TextNeeds::none || TextFolder::present(text_folder)) {
      text_ = TextFolder::open(text_folder, options.chat_template);
      if (backend_) text_->begin_raw_prompts_with(backend_->bos_ids());
    }
    if (options.needs == TextNeeds::chat) text_->chat_template();
  });
  problems.fail_if_any();
}

const TextFolder& Engine::text_or_fail() const {
  if (!text_) fail_input("{}: there is no tokenizer.json, which text needs", info_.folder);
  return *text_;
}

void Engine::check_ids(std::span<const int32_t> ids) const {
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] < 0 || ids[i] >= info_.vocab_size) {
      fail_usage("token {} at place {} is outside the vocabulary of {}", ids[i], i,
                 info_.vocab_size);
    }
  }
}

void Engine::run(Sweep& sweep, const CancelToken* cancel,
                 const std::function<void(double)>& on_progress, const SweepTrace& trace) {
  const auto layers = static_cast<double>(info_.num_hidden_layers);
  try {
    while (backend_->decoder().advance(sweep, cancel, trace)) {
      if (on_progress) on_progress(static_cast<double>(sweep.next_layer) / layers);
    }
    if (on_progress) on_progress(1.0);
  } catch (...) {
    for (auto row = sweep.rows.rbegin(); row != sweep.rows.rend(); ++row) {
      row->cache->truncate(row->index);
    }
    throw;
  }
}

KvSequence& CacheState::in(const std::shared_ptr<KvPagePool>& pages) {
  if (!sequence) {
    pool = pages;
    sequence.emplace(*pages);
  }
  if (pool != pages) fail_usage("this cache was filled by another model");
  return *sequence;
}

}  // namespace fathom
