#include "engine/engine.h"

#include <algorithm>
#include <chrono>
#include <filesystem>

#include "base/error.h"
#include "base/file.h"
#include "base/io_choice.h"
#include "base/join.h"
#include "base/log.h"
#include "base/system.h"
#include "base/units.h"
#include "checkpoint/deepseek_tensors.h"
#include "checkpoint/footprint.h"
#include "checkpoint/identity.h"
#include "engine/context_length.h"
#include "experts/resident_store.h"
#include "experts/streamed_store.h"
#include "kernels/dispatch.h"

namespace fathom {
namespace {

// Ways of reading are compared where experts are so large that it matters, for this long each.
constexpr uint64_t kWorthMeasuring = uint64_t{1} << 30;
constexpr double kMeasureSeconds = 0.15;
constexpr uint64_t kMeasureBytes = uint64_t{64} << 20;

int64_t row_chunk_of(const LoadOptions& options) {
  return options.row_chunk > 0 ? options.row_chunk : kDefaultRowChunk;
}

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

CachePolicyKind cache_policy(const LoadOptions& options) {
  return options.cache_policy.empty() ? StreamedStoreOptions{}.policy
                                      : cache_policy_named(options.cache_policy);
}

LookaheadMode lookahead_mode(Lookahead lookahead) {
  switch (lookahead) {
    case Lookahead::automatic:
      return LookaheadMode::automatic;
    case Lookahead::on:
      return LookaheadMode::on;
    case Lookahead::off:
      return LookaheadMode::off;
  }
  return LookaheadMode::automatic;
}

// The shards, each with its copies in the mirror folders.
std::vector<std::vector<std::string>> shard_paths(const Checkpoint& checkpoint,
                                                  const std::vector<std::string>& mirrors) {
  std::vector<std::string> folders;
  for (const std::string& mirror : mirrors) folders.push_back(resolve_model_folder(mirror));
  std::vector<std::vector<std::string>> paths;
  for (const Shard& shard : checkpoint.shards()) {
    std::vector<std::string>& copies = paths.emplace_back();
    copies.push_back(shard.file.path());
    for (const std::string& folder : folders) copies.push_back(folder + "/" + shard.name);
  }
  return paths;
}

}  // namespace

Engine::Engine(const LoadOptions& options) {
  const auto began = std::chrono::steady_clock::now();
  const std::string folder = resolve_model_folder(options.folder);
  info_.folder = folder;
  info_.name = std::filesystem::weakly_canonical(options.folder).filename().string();
  info_.architecture = "DeepseekV3ForCausalLM";
  {
    const Checkpoint checkpoint = open_files(folder, options);
    info_.context = decide_context(
        config_, text_ ? text_->tokenizer().model_max_length() : std::nullopt, options.context);
    load(checkpoint, options);
  }
  system::trim_heap();  // the headers are gone

  info_.vocab_size = config_.vocab_size;
  info_.hidden_size = config_.hidden_size;
  info_.num_hidden_layers = config_.num_hidden_layers;
  info_.load_seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
}

Engine::~Engine() {
  if (!expert_trace_) return;
  try {
    expert_trace_->finish();
  } catch (const Error& error) {
    log::write(log::Level::error, error.what());
  }
}

void Engine::load(const Checkpoint& checkpoint, const LoadOptions& options) {
  info_.identity = model_identity(checkpoint, config_);
  info_.threads = options.threads > 0 ? options.threads : system::processor_count();
  const KernelSet& kernels =
      options.kernels.empty() ? best_kernels() : kernels_named(options.kernels);
  info_.kernels = kernels.name;
  info_.kv = options.kv;
  info_.head = options.head;
  info_.embed = options.embed;
  WeightChoice choice;
  const MemoryPlan plan = this->plan(checkpoint, options, &choice);
  info_.memory_budget = plan.budget.bytes;
  info_.memory_reason = plan.budget.reason;
  info_.memory = plan.shares;
  info_.prefill_chunk = plan.prefill_chunk;
  info_.experts_on_disk = plan.experts == ExpertsPlace::disk;
  info_.has_mtp = choice.mtp;
  system::trim_heap();  // before the weights come: what was needed to plan is gone

  pool_ = std::make_unique<ThreadPool>(info_.threads);
  context_ = std::make_unique<KernelContext>(kernels, *pool_);
  weights_ = load_deepseek_weights(checkpoint, config_, choice, *pool_, options.cancel);
  experts_ = open_experts(checkpoint, options, plan);
  model_ = std::make_unique<DeepseekModel>(config_, weights_, *experts_, *context_,
                                           row_chunk_of(options));
  if (!options.expert_trace.empty()) {
    expert_trace_ = std::make_unique<RouteTraceWriter>(
        options.expert_trace, RouteTraceShape{model_->cache_layers(), config_.n_routed_experts,
                                              config_.num_experts_per_tok});
    model_->set_route_sink(expert_trace_.get());
  }
  const KvCacheLayout layout = kv_layout(options);
  // What a budget leaves over beside resident experts may hold more sequences.
  const uint64_t left = plan.budget.bytes - plan.needed();
  const uint64_t more =
      plan.experts == ExpertsPlace::memory ? left / static_cast<uint64_t>(layout.page_bytes()) : 0;
  constexpr uint64_t kMostPages = uint64_t{1} << 40;
  pages_ = std::make_shared<KvPagePool>(
      layout, plan.kv_pages + static_cast<int64_t>(std::min(more, kMostPages)));
}

KvCacheLayout Engine::kv_layout(const LoadOptions& options) const {
  KvCacheLayout layout;
  layout.layers = config_.num_hidden_layers + (info_.has_mtp ? 1 : 0);
  layout.row = {kv_format(options.kv), config_.kv_lora_rank, config_.qk_rope_head_dim};
  return layout;
}

MemoryPlan Engine::plan(const Checkpoint& checkpoint, const LoadOptions& options,
                        WeightChoice* choice) {
  MemoryNeeds needs;
  needs.config = &config_;
  needs.footprint = footprint_of(checkpoint, config_);
  needs.tied = has_tied_head(checkpoint, config_);
  if (needs.tied && options.head != options.embed) {
    fail_usage("{}: head and embedding are one tensor: --head and --embed must be the same",
               info_.folder);
  }
  needs.int8_head = options.head == WeightPrecision::int8;
  needs.int8_embedding = options.embed == WeightPrecision::int8;
  choice->int8_head = needs.int8_head;
  choice->int8_embedding = needs.int8_embedding;
  needs.context = info_.context.tokens;
  needs.sequences = std::max<int64_t>(options.sequences, 1);
  needs.row_chunk = row_chunk_of(options);
  needs.prefill_chunk = options.prefill_chunk;
  needs.threads = info_.threads;
  needs.scratch_per_thread = KernelContext::kScratchBytes;
  needs.most_slots = options.cache_slots;
  const MemoryBudget budget = decide_budget(options.ram, system::available_memory());

  const auto with = [&](bool mtp) {
    needs.mtp = mtp;
    info_.has_mtp = mtp;
    if (mtp) choice->mtp_copies = compare_mtp_copies(checkpoint, config_, options.cancel);
    needs.mtp_own_head = choice->mtp_copies.own_head;
    needs.mtp_own_embedding = choice->mtp_copies.own_embedding;
    needs.kv_bytes_per_token = static_cast<uint64_t>(kv_layout(options).layers) *
                               static_cast<uint64_t>(kv_layout(options).row.bytes());
    if (config_.n_routed_experts > 0) {
      set_expert_needs(ExpertLayout(checkpoint, config_, mtp), budget.bytes, &needs);
    }
    return plan_memory(needs, budget, options.experts, info_.folder);
  };
  const bool must = options.mtp || options.speculation == Speculation::on;
  bool mtp = must;
  MemoryPlan plan;
  if (must || options.speculation == Speculation::off || !checkpoint_has_mtp_) {
    plan = with(must);
  } else {
    // Drafts are worth it where they cost no reading: two tokens need more experts than one.
    plan = with(false);
    if (plan.experts == ExpertsPlace::memory) {
      try {
        MemoryPlan larger = with(true);
        mtp = larger.experts == ExpertsPlace::memory;
        if (mtp) plan = std::move(larger);
      } catch (const Error& error) {
        if (error.kind() == ErrorKind::cancelled) throw;
      }
      if (!mtp) plan = with(false);
    }
  }
  choice->mtp = mtp;
  choice->routed_experts = plan.experts == ExpertsPlace::memory;
  choice->embedding_on_disk = plan.embedding_on_disk;
  info_.kv_bytes_per_token = needs.kv_bytes_per_token;
  info_.weight_bytes = needs.footprint.total(mtp);
  return plan;
}

std::unique_ptr<ExpertStore> Engine::open_experts(const Checkpoint& checkpoint,
                                                  const LoadOptions& options,
                                                  const MemoryPlan& plan) {
  if (plan.experts == ExpertsPlace::memory) {
    info_.experts = "memory";
    return std::make_unique<ResidentExpertStore>(*context_, std::move(weights_.routed_experts),
                                                 row_chunk_of(options));
  }
  ExtentReaderOptions reader;
  reader.paths = shard_paths(checkpoint, options.mirrors);
  reader.mode = io_mode_named(options.io);
  ExpertLayout layout(checkpoint, config_, info_.has_mtp);
  std::string measured;
  if (reader.mode == IoMode::automatic && layout.total_bytes() >= kWorthMeasuring) {
    // Before the cache takes its memory, in which this lands.
    const IoChoice choice = measure_io_modes(
        reader, kMeasureSeconds, std::min(plan.cache_bytes, kMeasureBytes), options.cancel);
    reader.mode = choice.best;
    measured = "; measured " + describe(choice);
  }
  StreamedStoreOptions store;
  store.cache_bytes = plan.cache_bytes;
  store.policy = cache_policy(options);
  store.lookahead = lookahead_mode(options.lookahead);
  store.row_chunk = row_chunk_of(options);
  auto streamed = std::make_unique<StreamedExpertStore>(*context_, std::move(layout),
                                                        open_extent_reader(reader), store);
  info_.experts = streamed->stats().place + measured;
  return streamed;
}

ModelStats Engine::stats() const {
  const ExpertStats experts = experts_->stats();
  const system::ProcessMemory memory = system::process_memory();
  ModelStats stats;
  stats.peak_memory = memory.peak;
  stats.swap = memory.swapped;
  stats.expert_hits = experts.hits;
  stats.expert_misses = experts.misses;
  stats.expert_slots = experts.slots;
  stats.slot_bytes = experts.slot_bytes;
  stats.cache_policy = experts.policy;
  stats.bytes_read = experts.bytes_read;
  stats.reads_repeated = experts.retries;
  stats.lookahead_reads = experts.lookahead_reads;
  stats.lookahead_used = experts.lookahead_used;
  stats.lookahead = experts.lookahead;
  stats.disk_seconds = experts.disk_seconds;
  stats.wait_seconds = experts.wait_seconds;
  stats.compute_seconds = experts.compute_seconds;
  const PassTimes& times = model_->times();
  stats.attention_seconds = times.attention;
  stats.experts_seconds = times.experts;
  stats.mlp_seconds = times.mlp;
  stats.head_seconds = times.head;
  return stats;
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
    checkpoint_has_mtp_ = report.has_mtp;
    const bool wanted = options.mtp || options.speculation == Speculation::on;
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
