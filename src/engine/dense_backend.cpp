#include "engine/dense_backend.h"

#include <optional>

#include "base/error.h"
#include "base/file.h"
#include "base/system.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/footprint.h"
#include "checkpoint/identity.h"
#include "checkpoint/model_tensors.h"
#include "model/dense/forward.h"

namespace fathom {
namespace {

std::optional<WeightFormat> layer_format(WeightPrecision precision) {
  switch (precision) {
    case WeightPrecision::int8:
      return WeightFormat::int8_row;
    case WeightPrecision::int4:
      return WeightFormat::int4;
    case WeightPrecision::native:
      break;
  }
  return std::nullopt;
}

class DenseBackend final : public Backend {
 public:
  DenseBackend(const std::string& folder, const LoadOptions& options);

  const ModelShape& shape() const override { return shape_; }
  void load(const LoadOptions& options, ModelInfo* info) override;
  Decoder& decoder() override { return *model_; }
  const std::shared_ptr<KvPagePool>& pages() const override { return pages_; }
  void count(ModelStats*) const override {}

 private:
  KvCacheLayout kv_layout(const LoadOptions& options) const {
    return {config_.num_hidden_layers, dense_kv_row(config_, kv_format_of(options.kv))};
  }
  MemoryPlan plan(const LoadOptions& options, ModelInfo* info) const;

  DenseConfig config_;
  ModelShape shape_;
  std::optional<Checkpoint> checkpoint_;  // until it is loaded
  Machine machine_;
  DenseWeights weights_;
  std::unique_ptr<DenseModel> model_;
  std::shared_ptr<KvPagePool> pages_;
};

DenseBackend::DenseBackend(const std::string& folder, const LoadOptions& options) {
  ProblemCollector problems;
  const bool configured = problems.attempt([&] {
    const std::string path = folder + "/config.json";
    config_ = parse_dense_config(read_text(path, 1 << 20), path);
  });
  problems.attempt([&] {
    checkpoint_ = Checkpoint::open(folder);
    if (configured) check_tensors(*checkpoint_, config_);
  });
  problems.attempt([&] {
    const bool mtp = options.mtp || options.speculation == Speculation::on;
    if (mtp) fail_input("{}: there is no MTP layer to load", folder);
    if (!options.expert_trace.empty()) {
      fail_usage("{}: there are no routed experts whose choice could be recorded", folder);
    }
  });
  problems.fail_if_any();
  shape_ = shape_of(config_);
}

void DenseBackend::load(const LoadOptions& options, ModelInfo* info) {
  info->identity = model_identity(*checkpoint_, config_);
  choose_machine(options, info);
  const MemoryPlan plan = this->plan(options, info);
  tell_plan(plan, info);
  system::trim_heap();  // before the weights come: what was needed to plan is gone

  machine_ = start_machine(*info);
  const DenseChoice choice{
      {options.head == WeightPrecision::int8, options.embed == WeightPrecision::int8},
      layer_format(options.weights)};
  weights_ = load_dense_weights(*checkpoint_, config_, choice, *machine_.pool, options.cancel);
  model_ =
      std::make_unique<DenseModel>(config_, weights_, *machine_.context, row_chunk_of(options));
  pages_ = make_pages(kv_layout(options), plan);
  checkpoint_.reset();
}

MemoryPlan DenseBackend::plan(const LoadOptions& options, ModelInfo* info) const {
  MemoryNeeds needs =
      common_needs(options, *info, checkpoint_->folder(), config_.tie_word_embeddings);
  needs.shape = memory_shape_of(config_);
  needs.footprint = dense_footprint(*checkpoint_, config_, options.weights);
  needs.quantisable_layers = options.weights == WeightPrecision::native;
  const KvCacheLayout kv = kv_layout(options);
  needs.kv_bytes_per_token = static_cast<uint64_t>(kv.layers * kv.row.bytes());
  info->kv_bytes_per_token = needs.kv_bytes_per_token;
  info->weight_bytes = needs.footprint.total(false);
  return plan_memory(needs, decide_budget(options.ram, system::available_memory()),
                     ExpertsPlace::memory, checkpoint_->folder());
}

}  // namespace

Footprint dense_footprint(const Checkpoint& checkpoint, const DenseConfig& config,
                          WeightPrecision layers) {
  Footprint footprint = footprint_of(checkpoint, config);
  if (const auto format = layer_format(layers)) {
    for (const Part part : {Part::attention, Part::dense_mlp}) {
      // What is added may be less than nothing.
      footprint.main[static_cast<size_t>(part)] +=
          static_cast<uint64_t>(added_layer_bytes(checkpoint, config, part, *format));
    }
  }
  return footprint;
}

std::unique_ptr<Backend> open_dense_backend(const std::string& folder, const LoadOptions& options) {
  return std::make_unique<DenseBackend>(folder, options);
}

}  // namespace fathom
