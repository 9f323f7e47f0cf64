// A small checkpoint that holds nothing but routed experts.
#pragma once

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "checkpoint/deepseek_tensors.h"
#include "checkpoint/hf_config.h"
#include "experts/gated_mlp.h"
#include "experts/weight_loader.h"
#include "tests/checkpoint/configs.h"
#include "tests/checkpoint/toy.h"

namespace fathom {

// Layer 0 is dense, layers 1 and 2 and the MTP layer 3 have `experts` experts.
inline DeepseekConfig expert_config(int64_t experts = 12) {
  nlohmann::json config = small_config();
  config["hidden_size"] = 72;
  config["moe_intermediate_size"] = 40;
  config["n_routed_experts"] = experts;
  config["n_group"] = 1;
  config["topk_group"] = 1;
  config["num_experts_per_tok"] = 3;
  config["quantization_config"]["weight_block_size"] = {16, 32};
  return parse_deepseek_config(config.dump(), "config.json");
}

enum class TensorOrder { released, by_projection, shuffled };

struct ExpertFilesOptions {
  TensorOrder order = TensorOrder::released;
  int shards = 3;
  bool mixed_formats = false;  // BF16, F16 and F32 beside FP8
  uint32_t seed = 1;
};

class ExpertFiles {
 public:
  ExpertFiles(const DeepseekConfig& config, const ExpertFilesOptions& options)
      : config_(config), random_(options.seed) {
    for (int64_t layer = 0; layer <= config.num_hidden_layers; ++layer) {
      if (!config.is_moe_layer(layer)) continue;
      const size_t first = tensors_.size();
      for (int64_t expert = 0; expert < config.n_routed_experts; ++expert) {
        const int64_t inner = config.moe_intermediate_size;
        add(layer, expert, "gate_proj", inner, config.hidden_size, options);
        add(layer, expert, "up_proj", inner, config.hidden_size, options);
        add(layer, expert, "down_proj", config.hidden_size, inner, options);
      }
      if (options.order == TensorOrder::by_projection) {
        std::stable_sort(tensors_.begin() + static_cast<std::ptrdiff_t>(first), tensors_.end(),
                         [](const ToyTensor& a, const ToyTensor& b) {
                           return a.name.substr(a.name.find("proj") - 5) <
                                  b.name.substr(b.name.find("proj") - 5);
                         });
      }
    }
    if (options.order == TensorOrder::shuffled) {
      std::shuffle(tensors_.begin(), tensors_.end(), random_);
    }
    write(options.shards);
  }

  const DeepseekConfig& config() const { return config_; }
  std::string path(int shard) const { return folder_ / name(shard); }
  Checkpoint open() const { return Checkpoint::open(folder_.path()); }

  // Experts in memory, the whole of them: what every other store must equal.
  std::vector<std::vector<GatedMlp>> load(ThreadPool& pool, WeightMemory* memory) const {
    const Checkpoint checkpoint = open();
    WeightLoader loader(checkpoint, config_.weight_block_rows, config_.weight_block_cols);
    std::vector<std::vector<GatedMlp>> experts(static_cast<size_t>(config_.num_hidden_layers) + 1);
    for (int64_t layer = 0; layer <= config_.num_hidden_layers; ++layer) {
      if (!config_.is_moe_layer(layer)) continue;
      for (int64_t e = 0; e < config_.n_routed_experts; ++e) {
        experts[static_cast<size_t>(layer)].push_back(
            {loader.matrix(names::expert(layer, e, "gate_proj")),
             loader.matrix(names::expert(layer, e, "up_proj")),
             loader.matrix(names::expert(layer, e, "down_proj"))});
      }
    }
    loader.load(pool, "", nullptr);
    *memory = loader.take_memory();
    return experts;
  }

  // Puts `bytes` over element bytes of a tensor, in its file.
  void overwrite(const std::string& tensor, uint64_t at, const std::string& bytes) const {
    const Checkpoint checkpoint = open();
    const TensorInfo* info = checkpoint.find(tensor);
    ASSERT_NE(info, nullptr) << tensor;
    std::fstream file(path(info->shard), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(info->offset + at));
    file << bytes;
    ASSERT_TRUE(file.good());
  }

 private:
  static std::string name(int shard) { return "part-" + std::to_string(shard) + ".safetensors"; }

  void add(int64_t layer, int64_t expert, const std::string& projection, int64_t rows, int64_t cols,
           const ExpertFilesOptions& options) {
    const std::string name = names::expert(layer, expert, projection);
    const auto count = static_cast<size_t>(rows * cols);
    const uint32_t format = options.mixed_formats ? random_() % 4 : 0;
    if (format == 0) {
      std::string codes(count, '\0');
      for (char& c : codes) c = static_cast<char>(random_() % 0x7f | (random_() & 1) << 7);
      tensors_.push_back({name, "F8_E4M3", {rows, cols}, codes});
      const int64_t grid_rows = (rows + config_.weight_block_rows - 1) / config_.weight_block_rows;
      const int64_t grid_cols = (cols + config_.weight_block_cols - 1) / config_.weight_block_cols;
      tensors_.push_back({name + std::string(names::kScaleSuffix),
                          "F32",
                          {grid_rows, grid_cols},
                          floats(static_cast<size_t>(grid_rows * grid_cols), 1e-3f)});
    } else if (format == 1) {
      tensors_.push_back({name, "F32", {rows, cols}, floats(count, 0.3f)});
    } else {
      std::string halves;
      for (size_t i = 0; i < count; ++i) {
        halves += static_cast<char>(random_() & 0xff);
        // Exponents around 0.1 to 1 in either format.
        const uint32_t high = format == 2 ? 0x3d + random_() % 3 : 0x2e + random_() % 12;
        halves += static_cast<char>(high | (random_() & 1) << 7);
      }
      tensors_.push_back({name, format == 2 ? "BF16" : "F16", {rows, cols}, halves});
    }
  }
  std::string floats(size_t count, float most) {
    std::string bytes;
    std::uniform_real_distribution<float> values(-most, most);
    for (size_t i = 0; i < count; ++i) {
      const float value = values(random_);
      bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
    }
    return bytes;
  }
  // Cut by number of tensors, so that experts straddle.
  void write(int shards) {
    std::vector<std::pair<std::string, std::string>> index;
    const size_t each =
        (tensors_.size() + static_cast<size_t>(shards) - 1) / static_cast<size_t>(shards);
    for (int shard = 0; shard < shards; ++shard) {
      const size_t first = std::min(tensors_.size(), static_cast<size_t>(shard) * each);
      const size_t last = std::min(tensors_.size(), first + each);
      const std::vector<ToyTensor> part(tensors_.begin() + static_cast<std::ptrdiff_t>(first),
                                        tensors_.begin() + static_cast<std::ptrdiff_t>(last));
      write_file(path(shard), safetensors_of(part));
      for (const ToyTensor& tensor : part) index.emplace_back(tensor.name, name(shard));
    }
    write_file(folder_ / "model.safetensors.index.json", index_of(index));
  }

  DeepseekConfig config_;
  std::mt19937 random_;
  TemporaryFolder folder_;
  std::vector<ToyTensor> tensors_;
};

}  // namespace fathom
