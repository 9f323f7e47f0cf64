#include "checkpoint/synth_skeleton.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/buffer.h"
#include "base/error.h"
#include "base/file.h"
#include "base/units.h"
#include "checkpoint/deepseek_tensors.h"
#include "checkpoint/synth_layout.h"
#include "checkpoint/synth_values.h"
#include "numerics/half.h"

namespace fathom {
namespace {

constexpr uint64_t kBlock = 4096;  // of most file systems
constexpr uint64_t kPiece = uint64_t{1} << 20;
constexpr uint64_t kProbe = uint64_t{64} << 20;  // a file system without holes fills it in a moment

constexpr uint16_t kOne = float_to_bf16(1);  // released_layout() makes eh_proj BF16 always

bool has_token_rows(std::string_view name) {
  return name == names::kEmbedding || name == names::kHead ||
         name.ends_with(".embed_tokens.weight") || name.ends_with(".shared_head.head.weight");
}

}  // namespace

std::vector<LiveParts::Part> LiveParts::of(const TensorInfo& tensor) const {
  std::vector<Part> parts;
  if (!live) return parts;
  if (tensor.shape.size() == 1 || tensor.name.ends_with(".mlp.gate.weight")) {
    parts.push_back({0, tensor.bytes, false});
  } else if (has_token_rows(tensor.name)) {
    const uint64_t row = tensor.bytes / static_cast<uint64_t>(tensor.shape[0]);
    for (const auto& [first, end] : rows) {
      parts.push_back(
          {static_cast<uint64_t>(first) * row, static_cast<uint64_t>(end - first) * row, false});
    }
  } else if (tensor.name.ends_with(".eh_proj.weight")) {
    const auto step = (static_cast<uint64_t>(tensor.shape[1]) + 1) * sizeof kOne;
    for (int64_t row = 0; row < tensor.shape[0]; ++row) {
      parts.push_back({static_cast<uint64_t>(row) * step, sizeof kOne, true});
    }
  }
  return parts;
}

std::vector<std::pair<int64_t, int64_t>> live_token_rows(int64_t vocab_size, int64_t count,
                                                         const std::vector<int64_t>& others) {
  std::vector<std::pair<int64_t, int64_t>> given;
  const int64_t first = std::min(count, vocab_size);
  given.emplace_back(0, first);
  given.emplace_back(vocab_size - first / 4, vocab_size);
  for (const int64_t id : others) {
    if (id >= 0 && id < vocab_size) given.emplace_back(id, id + 1);
  }
  std::sort(given.begin(), given.end());
  std::vector<std::pair<int64_t, int64_t>> rows;
  for (const auto& range : given) {
    if (range.first == range.second) continue;
    if (!rows.empty() && range.first <= rows.back().second) {
      rows.back().second = std::max(rows.back().second, range.second);
    } else {
      rows.push_back(range);
    }
  }
  return rows;
}

SkeletonWriter::SkeletonWriter(LiveParts parts, uint64_t seed, const CancelToken* cancel)
    : parts_(std::move(parts)), seed_(seed), cancel_(cancel) {}

uint64_t SkeletonWriter::data_bytes(std::span<const TensorInfo> tensors) const {
  uint64_t sum = 0;
  for (const TensorInfo& tensor : tensors) {
    for (const LiveParts::Part& part : parts_.of(tensor)) sum += part.bytes;
  }
  return sum;
}

uint64_t SkeletonWriter::disk_bytes(std::span<const TensorInfo> tensors) const {
  uint64_t sum = (static_cast<uint64_t>(tensors.back().shard) + 1) * kBlock;  // behind headers
  for (const TensorInfo& tensor : tensors) {
    uint64_t counted = tensor.offset / kBlock;  // blocks before this one are counted
    for (const LiveParts::Part& part : parts_.of(tensor)) {
      const uint64_t first = (tensor.offset + part.begin) / kBlock;
      const uint64_t end = (tensor.offset + part.begin + part.bytes + kBlock - 1) / kBlock;
      sum += (end - std::min(end, std::max(first, counted))) * kBlock;
      counted = end;
    }
  }
  return sum;
}

void SkeletonWriter::write(const std::string& path, const std::string& header,
                           std::span<const TensorInfo> tensors, Progress* progress) const {
  OutputFile file(path);
  file.write(beginning_of_file(header));
  uint64_t at = 8 + header.size();
  const auto skip_to = [&](uint64_t offset) {
    if (offset > at) file.skip(offset - at);
    at = offset;
  };
  Buffer buffer(kPiece);
  for (const TensorInfo& tensor : tensors) {
    if (cancel_ != nullptr) cancel_->throw_if_cancelled();
    const TensorValues values(tensor, tensor.shape.back(), seed_);
    for (const LiveParts::Part& part : parts_.of(tensor)) {
      skip_to(tensor.offset + part.begin);
      for (uint64_t done = 0; done < part.bytes;) {
        const std::span<std::byte> piece(buffer.data(),
                                         static_cast<size_t>(std::min(kPiece, part.bytes - done)));
        if (part.one) {
          std::memcpy(piece.data(), &kOne, sizeof kOne);
        } else {
          values.fill(part.begin + done, piece);
        }
        file.write(piece);
        done += piece.size();
        if (cancel_ != nullptr) cancel_->throw_if_cancelled();
      }
      at += part.bytes;
      progress->add(part.bytes);
    }
  }
  skip_to(tensors.back().offset + tensors.back().bytes);
  file.commit();
}

void require_holes(const std::string& folder, std::span<const TensorInfo> tensors) {
  uint64_t bytes = 0;
  size_t largest = 0;
  for (const TensorInfo& tensor : tensors) {
    if (tensor.offset + tensor.bytes <= bytes) continue;
    bytes = tensor.offset + tensor.bytes;
    largest = static_cast<size_t>(tensor.shard);
  }
  const auto shards = static_cast<size_t>(tensors.back().shard) + 1;
  OutputFile file(folder + "/" + shard_name(largest, shards));
  const uint64_t probe = std::min(bytes, kProbe);
  file.skip(probe);
  // A file system may keep some blocks for a file that has none.
  if (probe > 16 * kBlock && file.disk_bytes() > probe / 2) {
    fail(ErrorKind::io,
         "{}: its file system keeps no holes in files ({} of zeros took {}); write the skeleton to "
         "another disk",
         folder, format_size(probe), format_size(file.disk_bytes()));
  }
  file.skip(bytes - probe);
}

}  // namespace fathom
