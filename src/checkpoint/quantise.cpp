#include "checkpoint/quantise.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.h"
#include "base/file.h"
#include "base/join.h"
#include "base/json.h"
#include "base/log.h"
#include "base/system.h"
#include "base/units.h"
#include "checkpoint/deepseek_tensors.h"
#include "checkpoint/hf_config.h"
#include "checkpoint/identity.h"
#include "checkpoint/inventory.h"
#include "checkpoint/model_folder.h"
#include "checkpoint/packed_tensor.h"
#include "checkpoint/quantise_shard.h"
#include "checkpoint/synth_layout.h"

namespace fathom {
namespace {

namespace fs = std::filesystem;

// What the process takes besides buffers and tables.
constexpr uint64_t kOverhead = uint64_t{64} << 20;
// Of each tensor's descriptions, here and in the checkpoint.
constexpr uint64_t kTableBytes = 1024;
// In a copy that is not finished: which checkpoint it is of, and in what format.
constexpr const char* kStateName = "quantising.json";

std::string format_name(int bits) { return fmt::format("int{}", bits); }

class Quantiser {
 public:
  explicit Quantiser(const QuantiseOptions& options)
      : options_(options), checkpoint_(Checkpoint::open(options.folder)) {
    read_config();
    choose();
    place();
  }

  QuantiseResult run() {
    require_memory();
    open_folder();
    ThreadPool pool(options_.threads);
    std::vector<bool> done;
    uint64_t needed = 0;
    for (size_t shard = 0; shard < counts_.size(); ++shard) {
      done.push_back(is_done(shard));
      if (done.back()) ++result_.earlier_shards;
      if (!done.back()) needed += file_bytes(shard);
    }
    require_disk(needed);
    uint64_t source = 0;
    for (const QuantisedTensor& tensor : tensors_) {
      if (tensor.from != nullptr) source += tensor.from->bytes;
    }
    Progress progress("quantising", source, ProgressUnit::bytes);
    QuantisedShardWriter writer(checkpoint_, block_, &pool, options_.cancel, &progress);
    std::span<const QuantisedTensor> rest(tensors_);
    for (size_t shard = 0; shard < counts_.size(); ++shard) {
      const auto held = rest.first(counts_[shard]);
      rest = rest.subspan(counts_[shard]);
      if (!done[shard]) {
        remove_leftovers(shard);
        writer.write(path_of(shard), headers_[shard], held);
        continue;
      }
      for (const QuantisedTensor& tensor : held) {
        if (tensor.from != nullptr) progress.add(tensor.from->bytes);
      }
    }
    finish();
    result_.shards = static_cast<int64_t>(counts_.size());
    return result_;
  }

 private:
  void read_config() {
    const std::string path = checkpoint_.folder() + "/config.json";
    const std::string text = read_text(path);
    config_ = parse_json_ordered(text, path);
    deepseek_ = architecture_of(text, path) == "DeepseekV3ForCausalLM";
    if (deepseek_) {
      const DeepseekConfig config = parse_deepseek_config(text, path);
      block_ = {config.weight_block_rows, config.weight_block_cols};
    }
    const auto quantization = config_.find("quantization_config");
    if (quantization != config_.end() && quantization->is_object() &&
        quantization->value("quant_method", "") == kPackedMethod) {
      fail_usage("{}: its weights are quantised already; start from the original", path);
    }
    identity_ = model_identity(checkpoint_, text);
  }

  static nlohmann::ordered_json parse_json_ordered(const std::string& text,
                                                   const std::string& path) {
    parse_json(text, path);  // for its limits and its errors
    return nlohmann::ordered_json::parse(text);
  }

  bool is_chosen(const TensorInfo& tensor) const {
    if (tensor.shape.size() != 2 || tensor.bytes == 0) return false;
    if (!tensor.name.ends_with("_proj.weight") || !names::layer_of(tensor.name)) return false;
    return !deepseek_ || tensor.name.find(".mlp.experts.") != std::string::npos;
  }

  // The copy's tensors, in the order of the shards and of the files.
  void choose() {
    std::vector<const TensorInfo*> all;
    for (const TensorInfo& tensor : checkpoint_.tensors()) all.push_back(&tensor);
    std::sort(all.begin(), all.end(), [](const TensorInfo* a, const TensorInfo* b) {
      return a->shard != b->shard ? a->shard < b->shard : a->offset < b->offset;
    });
    int shard = -1;
    for (const TensorInfo* tensor : all) {
      if (is_dropped(*tensor)) continue;
      if (tensor->shard != shard) {
        counts_.push_back(0);
        shard = tensor->shard;
      }
      const size_t before = tensors_.size();
      if (is_chosen(*tensor)) {
        add_packed(*tensor);
      } else {
        tensors_.push_back({*tensor, tensor, nullptr, 0});
      }
      counts_.back() += tensors_.size() - before;
    }
    if (result_.matrices == 0) {
      fail_usage("{}: nothing to quantise: {}", checkpoint_.folder(),
                 deepseek_ ? "it has no routed experts" : "its layers have no NAME_proj.weight");
    }
  }

  // Scales of FP8 matrices that are made anew.
  bool is_dropped(const TensorInfo& tensor) const {
    if (!tensor.name.ends_with(names::kScaleSuffix)) return false;
    const TensorInfo* of =
        checkpoint_.find(tensor.name.substr(0, tensor.name.size() - names::kScaleSuffix.size()));
    return of != nullptr && of->dtype == Dtype::f8_e4m3 && is_chosen(*of);
  }

  void add_packed(const TensorInfo& from) {
    const std::string& name = from.name;
    const TensorInfo* grid = nullptr;
    if (from.dtype == Dtype::f8_e4m3) {
      if (options_.bits == 8) {
        fail_usage("{}: tensor {} has 8 bits already; --to int4, int3 or int2 make it smaller",
                   checkpoint_.folder(), name);
      }
      grid = grid_of(from);
    } else if (from.dtype != Dtype::bf16 && from.dtype != Dtype::f16 && from.dtype != Dtype::f32) {
      fail_input("{}: tensor {}: {} cannot be quantised", checkpoint_.folder(), name,
                 dtype_name(from.dtype));
    }
    const PackedShape packed = packed_shape(options_.bits, from.shape[0], from.shape[1]);
    const auto info = [](const std::string& named, Dtype dtype, const std::vector<int64_t>& shape) {
      TensorInfo tensor{named, dtype, shape, 0, static_cast<uint64_t>(dtype_bytes(dtype)), 0};
      for (const int64_t size : shape) tensor.bytes *= static_cast<uint64_t>(size);
      return tensor;
    };
    tensors_.push_back({info(name, packed.dtype, packed.shape), &from, grid, options_.bits});
    tensors_.push_back(
        {info(name + std::string(kPackedScaleSuffix), packed.scale_dtype, packed.scale_shape),
         nullptr, nullptr, 0});
    ++result_.matrices;
    result_.matrix_bytes += from.bytes + (grid != nullptr ? grid->bytes : 0);
    result_.packed_bytes += tensors_.back().info.bytes + tensors_[tensors_.size() - 2].info.bytes;
  }

  const TensorInfo* grid_of(const TensorInfo& from) const {
    const std::string name = from.name + std::string(names::kScaleSuffix);
    const TensorInfo* grid = checkpoint_.find(name);
    if (grid == nullptr || block_.rows < 1) {
      fail_input("{}: tensor {} is F8_E4M3, but {}", checkpoint_.folder(), from.name,
                 grid == nullptr ? name + " is missing" : "config.json has no weight_block_size");
    }
    const std::vector<int64_t> shape = {(from.shape[0] + block_.rows - 1) / block_.rows,
                                        (from.shape[1] + block_.cols - 1) / block_.cols};
    if (grid->dtype != Dtype::f32 || grid->shape != shape) {
      fail_input("{}: tensor {} is {} {}, and must be F32 {}", checkpoint_.folder(), name,
                 dtype_name(grid->dtype), shape_text(grid->shape), shape_text(shape));
    }
    return grid;
  }

  void place() {
    std::vector<TensorInfo> infos;
    for (QuantisedTensor& tensor : tensors_) infos.push_back(std::move(tensor.info));
    headers_ = place_in_shards(counts_, &infos);
    index_ = index_text(infos, counts_.size());
    for (size_t i = 0; i < infos.size(); ++i) {
      result_.bytes += infos[i].bytes;
      tensors_[i].info = std::move(infos[i]);
    }
  }

  std::string path_of(size_t shard) const {
    return options_.out_folder + "/" + shard_name(shard, counts_.size());
  }

  uint64_t file_bytes(size_t shard) const {
    size_t first = 0;
    for (size_t i = 0; i < shard; ++i) first += counts_[i];
    uint64_t bytes = 8 + headers_[shard].size();
    for (size_t i = first; i < first + counts_[shard]; ++i) bytes += tensors_[i].info.bytes;
    return bytes;
  }

  // A shard that is there was written to its end; it must be this one.
  bool is_done(size_t shard) const {
    if (!path_exists(path_of(shard))) return false;
    const File file(path_of(shard));
    const std::string beginning = beginning_of_file(headers_[shard]);
    std::string found(beginning.size(), '\0');
    if (file.size() == file_bytes(shard)) {
      file.read_at(0, std::as_writable_bytes(std::span(found)));
    }
    if (found != beginning) {
      fail_usage("{}: it is not the shard that belongs here; give a new or an empty folder",
                 path_of(shard));
    }
    return true;
  }

  void require_memory() const {
    if (options_.ram == 0) return;
    const uint64_t needed =
        kOverhead + QuantisedShardWriter::memory_bytes(tensors_) + tensors_.size() * kTableBytes;
    if (options_.ram < needed) {
      fail_usage("--ram {}: quantising {} needs {}", format_size(options_.ram),
                 checkpoint_.folder(), format_size(needed));
    }
  }

  void require_disk(uint64_t needed) const {
    const uint64_t available = system::free_disk_bytes(options_.out_folder);
    if (needed > available) {
      fail(ErrorKind::io, "{}: the copy takes {} more, but only {} are free", options_.out_folder,
           format_size(needed), format_size(available));
    }
  }

  std::string state_text() const {
    nlohmann::ordered_json state;
    state["of"] = identity_;
    state["to"] = format_name(options_.bits);
    return state.dump() + "\n";
  }

  // Makes the folder, or finds in it what an earlier call has left.
  void open_folder() const {
    const std::string& folder = options_.out_folder;
    std::error_code error;
    fs::create_directories(folder, error);
    if (!fs::is_directory(folder)) {
      fail(ErrorKind::io, "{}: cannot create the folder: {}", folder, error.message());
    }
    const std::string state = folder + "/" + kStateName;
    if (path_exists(state)) {
      if (read_text(state) != state_text()) {
        fail_usage(
            "{}: it is of another checkpoint or in another format; give another folder, or "
            "remove this one's files",
            state);
      }
      return;
    }
    if (!safetensors_names(folder).empty() || path_exists(folder + "/config.json")) {
      fail_usage("{}: it already holds a checkpoint; give a new or an empty folder", folder);
    }
    write_file(kStateName, state_text());
  }

  // Of a call that was killed.
  void remove_leftovers(size_t shard) const {
    const std::string stem = fs::path(path_of(shard)).filename().string() + ".";
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(options_.out_folder, error)) {
      const std::string name = entry.path().filename().string();
      std::error_code ignored;
      if (name.starts_with(stem) && name.ends_with(".tmp")) fs::remove(entry.path(), ignored);
    }
  }

  void write_file(const std::string& name, std::string_view text) const {
    OutputFile file(options_.out_folder + "/" + name);
    file.write(text);
    file.commit();
  }

  // Everything but weights: text files, and config.json, without which the folder is no model.
  void finish() {
    for (const InventoryFile& file : take_inventory(checkpoint_.folder()).files) {
      switch (file.role) {
        case FileRole::generation_defaults:
        case FileRole::tokenizer:
        case FileRole::chat_template:
        case FileRole::licence:
        case FileRole::model_card:
          if (file.path.find('/') == std::string::npos) {
            write_file(file.path, read_text(checkpoint_.folder() + "/" + file.path));
          }
          break;
        default:
          break;
      }
    }
    write_file(kIndexName, index_);
    nlohmann::ordered_json mark;
    mark["quant_method"] = kPackedMethod;
    mark["format"] = format_name(options_.bits);
    mark["modules"] = deepseek_ ? "routed_experts" : "layers";
    if (block_.rows > 0) {  // of what stays FP8
      mark["fmt"] = "e4m3";
      mark["weight_block_size"] = {block_.rows, block_.cols};
    }
    config_["quantization_config"] = mark;
    write_file("config.json", config_.dump(2) + "\n");
    std::error_code ignored;
    fs::remove(options_.out_folder + "/" + kStateName, ignored);
  }

  const QuantiseOptions& options_;
  Checkpoint checkpoint_;
  nlohmann::ordered_json config_;
  std::string identity_;
  bool deepseek_ = false;
  BlockSize block_;
  std::vector<QuantisedTensor> tensors_;
  std::vector<size_t> counts_;  // tensors of each shard
  std::vector<std::string> headers_;
  std::string index_;
  QuantiseResult result_;
};

}  // namespace

QuantiseResult quantise_checkpoint(const QuantiseOptions& options) {
  return Quantiser(options).run();
}

}  // namespace fathom
