#include "checkpoint/synth.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/buffer.h"
#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/progress.h"
#include "base/system.h"
#include "base/threads.h"
#include "base/units.h"
#include "checkpoint/deepseek_tensors.h"
#include "checkpoint/model_folder.h"
#include "checkpoint/synth_layout.h"
#include "checkpoint/synth_values.h"

namespace fathom {
namespace {

namespace fs = std::filesystem;

// The output folder and what has been put into it; all removed again unless keep() is called.
class NewFolder {
 public:
  explicit NewFolder(const fs::path& path) : path_(path) {
    std::error_code error;
    if (fs::exists(path, error)) {
      refuse_if_in_use();
    } else {
      for (fs::path made = path; !made.empty() && !fs::exists(made, error);
           made = made.parent_path()) {
        made_.push_back(made);
      }
      if (!fs::create_directories(path, error) && error) {
        undo();
        fail(ErrorKind::io, "{}: cannot create the folder: {}", path.string(), error.message());
      }
    }
  }
  ~NewFolder() {
    if (!kept_) undo();
  }
  NewFolder(const NewFolder&) = delete;
  NewFolder& operator=(const NewFolder&) = delete;

  std::string path() const { return path_.string(); }
  // The path of a file that is about to be written.
  std::string add(const std::string& name) {
    files_.push_back(path_ / name);
    return files_.back().string();
  }
  void write(const std::string& name, std::string_view text) {
    OutputFile file(add(name));
    file.write(text);
    file.commit();
  }
  void keep() { kept_ = true; }

 private:
  void refuse_if_in_use() const {
    std::error_code error;
    if (!fs::is_directory(path_, error)) fail_usage("{}: not a folder", path());
    const std::vector<std::string> shards = safetensors_names(path());
    for (const std::string& name :
         {std::string("config.json"), std::string(kIndexName),
          shards.empty() ? std::string("model.safetensors") : shards.front()}) {
      if (path_exists((path_ / name).string())) {
        fail_usage("{}: it already holds a checkpoint ({}); give a new or an empty folder", path(),
                   name);
      }
    }
  }
  void undo() {
    std::error_code ignored;
    for (const fs::path& file : files_) fs::remove(file, ignored);
    // Deepest first; a folder that someone else has put a file into stays.
    for (const fs::path& folder : made_) fs::remove(folder, ignored);
  }

  fs::path path_;
  std::vector<fs::path> files_;
  std::vector<fs::path> made_;
  bool kept_ = false;
};

// Makes a shard's payload piece by piece on all threads while the piece before is written.
class ShardWriter {
 public:
  ShardWriter(const SynthOptions& options, const std::vector<TensorInfo>& tensors, ThreadPool* pool,
              Progress* progress)
      : options_(options), pool_(pool), progress_(progress) {
    for (Buffer& window : windows_) window = Buffer(kWindow);
    for (const TensorInfo& tensor : tensors) {
      if (tensor.dtype != Dtype::f8_e4m3) continue;
      fan_in_.emplace(tensor.name + std::string(names::kScaleSuffix), tensor.shape.back());
    }
  }

  void write(const std::string& path, const std::string& header,
             std::span<const TensorInfo> tensors) {
    OutputFile file(path);
    std::string length(8, '\0');
    for (size_t i = 0; i < 8; ++i) length[i] = static_cast<char>(header.size() >> (8 * i));
    file.write(length + header);

    const uint64_t begin = 8 + header.size();
    const uint64_t end = tensors.back().offset + tensors.back().bytes;
    std::span<const std::byte> ready;
    size_t window = 0;
    for (uint64_t at = begin; at < end || !ready.empty(); window ^= 1) {
      if (options_.cancel != nullptr) options_.cancel->throw_if_cancelled();
      const uint64_t size = std::min<uint64_t>(kWindow, end - at);
      const auto pieces = static_cast<int64_t>((size + kPiece - 1) / kPiece);
      std::byte* into = windows_[window].data();
      pool_->parallel_for(pieces + 1, [&](int64_t index, int) {
        if (index == 0) {
          file.write(ready);
          return;
        }
        const uint64_t first = static_cast<uint64_t>(index - 1) * kPiece;
        fill(tensors, at + first, {into + first, std::min<uint64_t>(kPiece, size - first)});
      });
      progress_->add(ready.size());
      ready = {into, static_cast<size_t>(size)};
      at += size;
    }
    file.commit();
  }

 private:
  static constexpr uint64_t kWindow = uint64_t{16} << 20;
  static constexpr uint64_t kPiece = uint64_t{1} << 20;

  // Bytes of the file from `offset` on.
  void fill(std::span<const TensorInfo> tensors, uint64_t offset, std::span<std::byte> into) const {
    auto tensor =
        std::upper_bound(tensors.begin(), tensors.end(), offset,
                         [](uint64_t at, const TensorInfo& t) { return at < t.offset + t.bytes; });
    for (; !into.empty(); ++tensor) {
      const uint64_t within = offset - tensor->offset;
      const auto count =
          static_cast<size_t>(std::min<uint64_t>(tensor->bytes - within, into.size()));
      const bool scale = tensor->name.ends_with(names::kScaleSuffix);
      const int64_t fan_in = scale ? fan_in_.at(tensor->name) : tensor->shape.back();
      TensorValues(*tensor, fan_in, options_.seed).fill(within, into.first(count));
      into = into.subspan(count);
      offset += count;
    }
  }

  const SynthOptions& options_;
  ThreadPool* pool_;
  Progress* progress_;
  // By the name of a grid of scales: columns of the matrix it belongs to, which the grid does not
  // tell and which may lie in another shard.
  std::unordered_map<std::string, int64_t> fan_in_;
  Buffer windows_[2];
};

std::string index_text(const std::vector<TensorInfo>& tensors, size_t shards) {
  uint64_t total = 0;
  for (const TensorInfo& tensor : tensors) total += tensor.bytes;
  std::string text = fmt::format(
      "{{\n  \"metadata\": {{\n    \"total_size\": {}\n  }},\n  \"weight_map\": {{", total);
  for (const TensorInfo& tensor : tensors) {
    text += fmt::format("{}\n    \"{}\": \"{}\"", &tensor == &tensors.front() ? "" : ",",
                        tensor.name, shard_name(static_cast<size_t>(tensor.shard), shards));
  }
  return text + "\n  }\n}\n";
}

// The special tokens of config.json, where it has them.
std::string generation_text(const std::string& config_text, const std::string& config_path) {
  const nlohmann::json config = parse_json(config_text, config_path);
  nlohmann::ordered_json generation;
  generation["_from_model_config"] = true;
  for (const char* name : {"bos_token_id", "eos_token_id"}) {
    if (config.contains(name)) generation[name] = config[name];
  }
  std::string text = generation.dump(2) + "\n";
  parse_generation_config(text, config_path);  // the ids must be usable
  return text;
}

}  // namespace

void synthesise_checkpoint(const SynthOptions& options, int threads) {
  const std::string config_text = read_text(options.config_path);
  const DeepseekConfig config = parse_deepseek_config(config_text, options.config_path);
  const std::string generation = generation_text(config_text, options.config_path);
  std::vector<TensorInfo> tensors = released_layout(config);
  if (options.shards < 1 || static_cast<size_t>(options.shards) > tensors.size()) {
    fail_usage("{} shards: a checkpoint of {} tensors can have 1 to {}", options.shards,
               tensors.size(), tensors.size());
  }
  const auto shards = static_cast<size_t>(options.shards);
  const std::vector<size_t> counts = even_shards(tensors, shards);
  const std::vector<std::string> headers = place_in_shards(counts, &tensors);
  const std::string index = index_text(tensors, shards);

  NewFolder folder{fs::path(options.out_folder)};
  uint64_t payload = 0;
  for (const TensorInfo& tensor : tensors) payload += tensor.bytes;
  uint64_t needed = payload + index.size();
  for (const std::string& header : headers) needed += header.size();
  if (const uint64_t available = system::free_disk_bytes(folder.path()); needed > available) {
    fail(ErrorKind::io, "{}: the checkpoint takes {}, but only {} are free", folder.path(),
         format_size(needed), format_size(available));
  }

  ThreadPool pool(threads);
  Progress progress("writing", payload, ProgressUnit::bytes);
  ShardWriter writer(options, tensors, &pool, &progress);
  std::span<const TensorInfo> rest(tensors);
  for (size_t shard = 0; shard < shards; ++shard) {
    writer.write(folder.add(shard_name(shard, shards)), headers[shard], rest.first(counts[shard]));
    rest = rest.subspan(counts[shard]);
  }
  folder.write(kIndexName, index);
  folder.write("generation_config.json", generation);
  folder.write("config.json", config_text);  // the last: without it the folder is no model
  folder.keep();
}

}  // namespace fathom
