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
#include "checkpoint/synth_folder.h"
#include "checkpoint/synth_layout.h"
#include "checkpoint/synth_shard_table.h"
#include "checkpoint/synth_skeleton.h"
#include "checkpoint/synth_values.h"

namespace fathom {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMostTableBytes = uint64_t{16} << 20;

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
    file.write(beginning_of_file(header));

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

// The special tokens of config.json, where it has them.
std::string generation_text(const std::string& config_text, const std::string& config_path) {
  const nlohmann::json config = parse_json(config_text, config_path);
  nlohmann::ordered_json generation;
  generation["_from_model_config"] = true;
  for (const char* name : {"bos_token_id", "eos_token_id"}) {
    if (config.contains(name)) generation[name] = config[name];
  }
  return generation.dump(2) + "\n";
}

std::vector<size_t> shard_counts(const SynthOptions& options, int64_t layers,
                                 const std::vector<TensorInfo>& tensors) {
  if (!options.shard_table.empty()) {
    return shard_table_counts(read_text(options.shard_table, kMostTableBytes), options.shard_table,
                              layers, tensors);
  }
  if (options.shards < 1 || static_cast<size_t>(options.shards) > tensors.size()) {
    fail_usage("{} shards: a checkpoint of {} tensors can have 1 to {}", options.shards,
               tensors.size(), tensors.size());
  }
  return even_shards(tensors, static_cast<size_t>(options.shards));
}

LiveParts live_parts(const SynthOptions& options, int64_t vocab_size,
                     const GenerationConfig& generation) {
  std::vector<int64_t> special = generation.eos_token_ids;
  if (generation.bos_token_id) special.push_back(*generation.bos_token_id);
  return {options.live, live_token_rows(vocab_size, options.live_rows, special)};
}

void require_disk(const std::string& folder, uint64_t needed) {
  if (const uint64_t available = system::free_disk_bytes(folder); needed > available) {
    fail(ErrorKind::io, "{}: the checkpoint takes {}, but only {} are free", folder,
         format_size(needed), format_size(available));
  }
}

}  // namespace

SynthResult synthesise_checkpoint(const SynthOptions& options, int threads) {
  const std::string config_text = read_text(options.config_path);
  const ModelConfig config = parse_model_config(config_text, options.config_path);
  const ModelShape shape = shape_of(config);
  const std::string generation = generation_text(config_text, options.config_path);
  const GenerationConfig special =
      parse_generation_config(generation, options.config_path);  // the ids must be usable
  std::vector<TensorInfo> tensors = released_layout(config);
  const std::vector<size_t> counts = shard_counts(options, shape.num_hidden_layers, tensors);
  const size_t shards = counts.size();
  const std::vector<std::string> headers = place_in_shards(counts, &tensors);
  const std::string index = index_text(tensors, shards);

  uint64_t written = index.size() + generation.size() + config_text.size();
  for (const std::string& header : headers) written += 8 + header.size();
  uint64_t payload = 0;
  for (const TensorInfo& tensor : tensors) payload += tensor.bytes;
  SynthResult result;
  result.files = static_cast<int64_t>(shards) + 3;
  result.bytes = written + payload;

  NewFolder folder{fs::path(options.out_folder)};
  const auto write_shards = [&](const auto& write) {
    std::span<const TensorInfo> rest(tensors);
    for (size_t shard = 0; shard < shards; ++shard) {
      write(folder.add(shard_name(shard, shards)), headers[shard], rest.first(counts[shard]));
      rest = rest.subspan(counts[shard]);
    }
  };
  if (options.skeleton) {
    const SkeletonWriter writer(live_parts(options, shape.vocab_size, special), options.seed,
                                options.cancel);
    result.written_bytes = written + writer.data_bytes(tensors);
    require_holes(folder.path(), tensors);
    require_disk(folder.path(), written + writer.disk_bytes(tensors));
    Progress progress("writing", result.written_bytes - written, ProgressUnit::bytes);
    write_shards(
        [&](const std::string& path, const std::string& header, std::span<const TensorInfo> held) {
          writer.write(path, header, held, &progress);
        });
  } else {
    result.written_bytes = result.bytes;
    require_disk(folder.path(), result.bytes);
    ThreadPool pool(threads);
    Progress progress("writing", payload, ProgressUnit::bytes);
    ShardWriter writer(options, tensors, &pool, &progress);
    write_shards([&](const std::string& path, const std::string& header,
                     std::span<const TensorInfo> held) { writer.write(path, header, held); });
  }
  folder.write(kIndexName, index);
  folder.write("generation_config.json", generation);
  folder.write("config.json", config_text);  // the last: without it the folder is no model
  folder.keep();
  return result;
}

}  // namespace fathom
