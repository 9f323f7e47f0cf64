#include "engine/deepseek_backend.h"

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "base/file.h"
#include "base/io_choice.h"
#include "base/log.h"
#include "base/system.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/deepseek_tensors.h"
#include "checkpoint/footprint.h"
#include "checkpoint/identity.h"
#include "experts/resident_store.h"
#include "experts/route_trace.h"
#include "experts/streamed_store.h"
#include "model/deepseek/forward.h"

namespace fathom {
namespace {

// Ways of reading are compared where experts are so large that it matters, for this long each.
constexpr uint64_t kWorthMeasuring = uint64_t{1} << 30;
constexpr double kMeasureSeconds = 0.15;
constexpr uint64_t kMeasureBytes = uint64_t{64} << 20;

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

class DeepseekBackend final : public Backend {
 public:
  DeepseekBackend(const std::string& folder, const LoadOptions& options);
  ~DeepseekBackend() override;

  const ModelShape& shape() const override { return shape_; }
  void load(const LoadOptions& options, ModelInfo* info) override;
  Decoder& decoder() override { return *model_; }
  const std::shared_ptr<KvPagePool>& pages() const override { return pages_; }
  void count(ModelStats* stats) const override;

 private:
  KvCacheLayout kv_layout(const LoadOptions& options) const;
  MemoryPlan plan(const LoadOptions& options, WeightChoice* choice, ModelInfo* info);
  std::unique_ptr<ExpertStore> open_experts(const LoadOptions& options, const MemoryPlan& plan,
                                            ModelInfo* info);

  DeepseekConfig config_;
  ModelShape shape_;
  std::optional<Checkpoint> checkpoint_;  // until it is loaded
  bool checkpoint_has_mtp_ = false;
  bool has_mtp_ = false;  // loaded
  Machine machine_;
  DeepseekWeights weights_;
  std::unique_ptr<ExpertStore> experts_;
  std::unique_ptr<DeepseekModel> model_;
  std::shared_ptr<KvPagePool> pages_;
  std::unique_ptr<RouteTraceWriter> expert_trace_;
};

// Whoever has downloaded hundreds of gigabytes wants to hear of everything that is wrong at once.
DeepseekBackend::DeepseekBackend(const std::string& folder, const LoadOptions& options) {
  ProblemCollector problems;
  const bool configured = problems.attempt([&] {
    const std::string path = folder + "/config.json";
    config_ = parse_deepseek_config(read_text(path, 1 << 20), path);
  });
  problems.attempt([&] {
    if (options.weights != WeightPrecision::native) {
      fail_usage(
          "{}: --weights is for dense models; fathom quantize makes a copy with smaller experts",
          folder);
    }
  });
  problems.attempt([&] {
    checkpoint_ = Checkpoint::open(folder);
    if (!configured) return;
    const TensorReport report = check_deepseek_tensors(*checkpoint_, config_);
    checkpoint_has_mtp_ = report.has_mtp;
    const bool wanted = options.mtp || options.speculation == Speculation::on;
    if (wanted && !report.has_mtp) fail_input("{}: there is no MTP layer to load", folder);
  });
  problems.fail_if_any();
  shape_ = shape_of(config_);
}

DeepseekBackend::~DeepseekBackend() {
  if (!expert_trace_) return;
  try {
    expert_trace_->finish();
  } catch (const Error& error) {
    log::write(log::Level::error, error.what());
  }
}

void DeepseekBackend::load(const LoadOptions& options, ModelInfo* info) {
  info->identity = model_identity(*checkpoint_, config_);
  choose_machine(options, info);
  WeightChoice choice;
  const MemoryPlan plan = this->plan(options, &choice, info);
  tell_plan(plan, info);
  info->has_mtp = choice.mtp;
  system::trim_heap();  // before the weights come: what was needed to plan is gone

  machine_ = start_machine(*info);
  weights_ = load_deepseek_weights(*checkpoint_, config_, choice, *machine_.pool, options.cancel);
  experts_ = open_experts(options, plan, info);
  model_ = std::make_unique<DeepseekModel>(config_, weights_, *experts_, *machine_.context,
                                           row_chunk_of(options));
  const KvCacheLayout layout = kv_layout(options);
  if (!options.expert_trace.empty()) {
    expert_trace_ = std::make_unique<RouteTraceWriter>(
        options.expert_trace,
        RouteTraceShape{layout.layers, config_.n_routed_experts, config_.num_experts_per_tok});
    model_->set_route_sink(expert_trace_.get());
  }
  pages_ = make_pages(layout, plan);
  checkpoint_.reset();
}

KvCacheLayout DeepseekBackend::kv_layout(const LoadOptions& options) const {
  KvCacheLayout layout;
  layout.layers = config_.num_hidden_layers + (has_mtp_ ? 1 : 0);
  layout.row = {kv_format_of(options.kv), config_.kv_lora_rank, config_.qk_rope_head_dim};
  return layout;
}

MemoryPlan DeepseekBackend::plan(const LoadOptions& options, WeightChoice* choice,
                                 ModelInfo* info) {
  const Checkpoint& checkpoint = *checkpoint_;
  MemoryNeeds needs =
      common_needs(options, *info, checkpoint.folder(), has_tied_head(checkpoint, config_));
  needs.shape = memory_shape_of(config_);
  needs.footprint = footprint_of(checkpoint, config_);
  choice->vocabulary = {needs.int8_head, needs.int8_embedding};
  const MemoryBudget budget = decide_budget(options.ram, system::available_memory());

  const auto with = [&](bool mtp) {
    needs.mtp = mtp;
    has_mtp_ = mtp;
    needs.kv_bytes_per_token = static_cast<uint64_t>(kv_layout(options).layers) *
                               static_cast<uint64_t>(kv_layout(options).row.bytes());
    if (config_.n_routed_experts > 0) {
      set_expert_needs(ExpertLayout(checkpoint, config_, mtp), budget.bytes, &needs);
    }
    const auto differs = [&](MtpCopy which) {
      return mtp && mtp_copy_differs(checkpoint, config_, which, options.cancel);
    };
    MtpCopies& copies = choice->mtp_copies;
    copies.own_head = needs.mtp_own_head = differs(MtpCopy::head);
    needs.mtp_own_embedding = false;
    MemoryPlan plan = plan_memory(needs, budget, options.experts, checkpoint.folder());
    if (plan.embedding_on_disk) {
      // A copy takes no memory there, and comparing would read all of it.
      copies.own_embedding = mtp && has_mtp_copy(checkpoint, config_, MtpCopy::embedding);
      return plan;
    }
    copies.own_embedding = needs.mtp_own_embedding = differs(MtpCopy::embedding);
    return copies.own_embedding ? plan_memory(needs, budget, options.experts, checkpoint.folder())
                                : plan;
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
  choice->vocabulary.embedding_on_disk = plan.embedding_on_disk;
  info->kv_bytes_per_token = needs.kv_bytes_per_token;
  info->weight_bytes = needs.footprint.total(mtp);
  return plan;
}

std::unique_ptr<ExpertStore> DeepseekBackend::open_experts(const LoadOptions& options,
                                                           const MemoryPlan& plan,
                                                           ModelInfo* info) {
  if (plan.experts == ExpertsPlace::memory) {
    info->experts = "memory";
    return std::make_unique<ResidentExpertStore>(
        *machine_.context, std::move(weights_.routed_experts), row_chunk_of(options));
  }
  ExtentReaderOptions reader;
  reader.paths = shard_paths(*checkpoint_, options.mirrors);
  reader.mode = io_mode_named(options.io);
  ExpertLayout layout(*checkpoint_, config_, has_mtp_);
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
  auto streamed = std::make_unique<StreamedExpertStore>(*machine_.context, std::move(layout),
                                                        open_extent_reader(reader), store);
  info->experts = streamed->stats().place + measured;
  return streamed;
}

void DeepseekBackend::count(ModelStats* stats) const {
  const ExpertStats experts = experts_->stats();
  stats->expert_hits = experts.hits;
  stats->expert_misses = experts.misses;
  stats->expert_slots = experts.slots;
  stats->slot_bytes = experts.slot_bytes;
  stats->cache_policy = experts.policy;
  stats->bytes_read = experts.bytes_read;
  stats->reads_repeated = experts.retries;
  stats->lookahead_reads = experts.lookahead_reads;
  stats->lookahead_used = experts.lookahead_used;
  stats->lookahead = experts.lookahead;
  stats->disk_seconds = experts.disk_seconds;
  stats->wait_seconds = experts.wait_seconds;
  stats->compute_seconds = experts.compute_seconds;
}

}  // namespace

std::unique_ptr<Backend> open_deepseek_backend(const std::string& folder,
                                               const LoadOptions& options) {
  return std::make_unique<DeepseekBackend>(folder, options);
}

}  // namespace fathom
