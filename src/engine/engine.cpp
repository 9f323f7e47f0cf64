#include "engine/engine.h"

#include <chrono>
#include <filesystem>
#include <limits>

#include "base/error.h"
#include "base/file.h"
#include "base/join.h"
#include "base/log.h"
#include "base/system.h"
#include "base/units.h"
#include "checkpoint/deepseek_tensors.h"
#include "engine/context_length.h"
#include "kernels/dispatch.h"

namespace fathom {
namespace {

// Rows worked on at once inside a layer: enough for the matrix kernels to reach their rate, and
// about 0.8 MB of scratch each at R1's width.
constexpr int64_t kDefaultRowChunk = 128;

KvFormat kv_format(KvPrecision precision) {
  switch (precision) {
    case KvPrecision::f32:
      return KvFormat::f32;
    case KvPrecision::bf16:
      return KvFormat::bf16;
    case KvPrecision::int8:
      return KvFormat::int8;
  }
  return KvFormat::bf16;
}

void check_memory(uint64_t weight_bytes, const std::string& folder) {
  const uint64_t available = system::available_memory();
  if (available == 0 || weight_bytes <= available) return;
  fail_input(
      "{}: its weights take {} and {} of memory are available; this version keeps all weights in "
      "memory",
      folder, format_size(weight_bytes), format_size(available));
}

}  // namespace

Engine::Engine(const LoadOptions& options) {
  const auto began = std::chrono::steady_clock::now();
  const std::string folder = resolve_model_folder(options.folder);
  const Checkpoint checkpoint = open_files(folder, options);
  info_.context = decide_context(
      config_, text_ ? text_->tokenizer().model_max_length() : std::nullopt, options.context);
  info_.weight_bytes = deepseek_weight_bytes(checkpoint, config_, with_mtp_);
  check_memory(info_.weight_bytes, folder);

  const int threads = options.threads > 0 ? options.threads : system::processor_count();
  const KernelSet& kernels =
      options.kernels.empty() ? best_kernels() : kernels_named(options.kernels);
  pool_ = std::make_unique<ThreadPool>(threads);
  context_ = std::make_unique<KernelContext>(kernels, *pool_);
  weights_ = load_deepseek_weights(checkpoint, config_, with_mtp_, *pool_, options.cancel);
  const int64_t row_chunk = options.row_chunk > 0 ? options.row_chunk : kDefaultRowChunk;
  experts_ = std::make_unique<ResidentExpertStore>(*context_, std::move(weights_.routed_experts),
                                                   row_chunk);
  model_ = std::make_unique<DeepseekModel>(config_, weights_, *experts_, *context_, row_chunk);

  KvCacheLayout layout;
  layout.layers = model_->cache_layers();
  layout.row = {kv_format(options.kv), config_.kv_lora_rank, config_.qk_rope_head_dim};
  pages_ = std::make_shared<KvPagePool>(layout, std::numeric_limits<int64_t>::max());

  info_.folder = folder;
  info_.name = std::filesystem::weakly_canonical(options.folder).filename().string();
  info_.architecture = "DeepseekV3ForCausalLM";
  info_.kernels = kernels.name;
  info_.threads = threads;
  info_.vocab_size = config_.vocab_size;
  info_.hidden_size = config_.hidden_size;
  info_.num_hidden_layers = config_.num_hidden_layers;
  info_.has_mtp = model_->has_mtp();
  info_.kv = options.kv;
  info_.kv_bytes_per_token = static_cast<uint64_t>(layout.layers * layout.row.bytes());
  info_.load_seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
}

// Whoever has downloaded hundreds of gigabytes wants to hear of everything that is wrong at once.
Checkpoint Engine::open_files(const std::string& folder, const LoadOptions& options) {
  std::vector<std::string> problems;
  const auto attempt = [&problems](const auto& step) {
    try {
      step();
      return true;
    } catch (const Error& error) {
      problems.emplace_back(error.what());
      return false;
    }
  };
  const bool configured = attempt([&] {
    const std::string path = folder + "/config.json";
    config_ = parse_deepseek_config(read_text(path, 1 << 20), path);
    generation_config_ = read_generation_config(folder);
  });
  attempt([&] {
    if (options.needs != TextNeeds::none || TextFolder::present(folder)) {
      text_ = TextFolder::open(folder);
    }
    if (options.needs == TextNeeds::chat) text_->chat_template();
  });
  std::optional<Checkpoint> checkpoint;
  attempt([&] {
    checkpoint = Checkpoint::open(folder);
    if (!configured) return;
    const TensorReport report = check_deepseek_tensors(*checkpoint, config_);
    const bool wanted = options.mtp || options.speculation == Speculation::on;
    with_mtp_ = wanted || (options.speculation == Speculation::automatic && report.has_mtp);
    if (wanted && !report.has_mtp) fail_input("{}: there is no MTP layer to load", folder);
  });
  if (!problems.empty()) throw Error(ErrorKind::input, join(problems, "\n"));
  return std::move(*checkpoint);
}

const TextFolder& Engine::text_or_fail() const {
  if (!text_) fail_input("{}: there is no tokenizer.json, which text needs", info_.folder);
  return *text_;
}

void Engine::check_ids(std::span<const int32_t> ids) const {
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] < 0 || ids[i] >= config_.vocab_size) {
      fail_usage("token {} at place {} is outside the vocabulary of {}", ids[i], i,
                 config_.vocab_size);
    }
  }
}

void Engine::run(Sweep& sweep, const CancelToken* cancel,
                 const std::function<void(double)>& on_progress, const SweepTrace& trace) {
  const auto layers = static_cast<double>(config_.num_hidden_layers);
  try {
    while (model_->advance(sweep, cancel, trace)) {
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
