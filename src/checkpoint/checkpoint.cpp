#include "checkpoint/checkpoint.h"

#include <algorithm>
#include <cassert>
#include <filesystem>
#include <map>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/join.h"
#include "base/json_sax.h"
#include "base/log.h"
#include "checkpoint/model_folder.h"
#include "checkpoint/weight_index.h"

namespace fathom {
namespace {

constexpr uint64_t kMostIndexBytes = uint64_t{1} << 30;
// Tensors that the index lists in vain are named up to this number, then counted.
constexpr size_t kMostNamedTensors = 20;

std::string join_path(const std::string& folder, const std::string& name) {
  return (std::filesystem::path(folder) / name).string();
}

[[noreturn]] void fail_with(const std::string& folder, const std::vector<std::string>& problems) {
  if (problems.size() == 1) {
    // What is wrong inside of a file begins with its path already.
    const std::string& only = problems.front();
    if (only.starts_with(folder)) throw Error(ErrorKind::input, only);
    fail_input("{}: {}", folder, only);
  }
  fail_input("{}: {} problems:\n  {}", folder, problems.size(), join(problems, "\n  "));
}

// One line per file that cannot be opened, and where a whole set of other names is present (a stale
// index), a line that says so. It is never taken in place of what the index names.
std::vector<std::string> absent_files(const std::string& folder,
                                      const std::vector<std::string>& wanted) {
  std::vector<std::string> problems;
  for (const std::string& name : wanted) {
    const std::string why = why_absent(folder, name);
    if (!why.empty()) problems.push_back(fmt::format("{} {}", name, why));
  }
  if (problems.empty()) return problems;
  for (const ShardSet& set : shard_sets(safetensors_names(folder))) {
    if (!set.missing.empty()) continue;
    const bool named = std::any_of(set.present.begin(), set.present.end(), [&](const auto& name) {
      return std::binary_search(wanted.begin(), wanted.end(), name);
    });
    if (named) continue;
    problems.push_back(fmt::format(
        "hint: another complete set is present, {} ... {} ({} files), which {} does not "
        "name; the index may be stale",
        set.present.front(), set.present.back(), set.present.size(), kIndexName));
  }
  return problems;
}

// Without an index the names themselves tell whether a set is whole.
std::vector<std::string> names_without_index(const std::string& folder) {
  std::vector<std::string> names = safetensors_names(folder);
  if (names.empty()) {
    fail_input("{}: no checkpoint here: looked for {} and for *.safetensors{}", folder, kIndexName,
               hint_without_safetensors(folder));
  }
  std::vector<std::string> problems = absent_files(folder, names);
  for (const ShardSet& set : shard_sets(names)) {
    for (const std::string& name : set.missing) problems.push_back(name + " is missing");
  }
  if (!problems.empty()) fail_with(folder, problems);
  return names;
}

}  // namespace

Checkpoint Checkpoint::open(const std::string& folder) {
  Checkpoint checkpoint;
  checkpoint.folder_ = resolve_model_folder(folder);
  const std::string& where = checkpoint.folder_;

  std::optional<WeightIndex> index;
  std::vector<std::string> names;
  if (const std::string path = join_path(where, kIndexName); path_exists(path)) {
    if (const std::string why = why_absent(where, kIndexName); !why.empty()) {
      fail_input("{}: {} {}", where, kIndexName, why);
    }
    index = parse_weight_index(read_text(path, kMostIndexBytes), path);
    names = index->files;
    if (names.empty()) fail_input("{}: 'weight_map' is empty", path);
    const std::vector<std::string> absent = absent_files(where, names);
    if (!absent.empty()) fail_with(where, absent);
  } else {
    names = names_without_index(where);
  }

  // What is wrong with single files is collected, so that one look tells all.
  std::vector<std::string> problems;
  std::vector<std::vector<TensorInfo>> found;  // by shard
  for (const std::string& name : names) {
    try {
      Shard shard{name, File(join_path(where, name)), 0};
      SafetensorsHeader header = read_safetensors_header(shard.file);
      shard.header_bytes = header.header_bytes;
      checkpoint.shards_.push_back(std::move(shard));
      found.push_back(std::move(header.tensors));
    } catch (const Error& error) {
      problems.push_back(error.what());
    }
  }
  if (!problems.empty()) fail_with(where, problems);

  size_t count = 0;
  for (const std::vector<TensorInfo>& tensors : found) count += tensors.size();
  checkpoint.tensors_.reserve(count);
  size_t listed = 0;  // tensors found where the index says
  for (size_t shard = 0; shard < found.size(); ++shard) {
    for (TensorInfo& tensor : found[shard]) {
      if (index) {
        const auto entry = index->file_of_tensor.find(tensor.name);
        if (entry != index->file_of_tensor.end()) {
          if (entry->second != static_cast<int>(shard)) continue;  // the other one counts
          ++listed;
        }
      }
      tensor.shard = static_cast<int>(shard);
      checkpoint.tensors_.push_back(std::move(tensor));
    }
  }
  // Views into names: made only now that nothing moves any more.
  checkpoint.by_name_.reserve(checkpoint.tensors_.size());
  for (size_t i = 0; i < checkpoint.tensors_.size(); ++i) {
    const TensorInfo& tensor = checkpoint.tensors_[i];
    const auto [other, is_new] = checkpoint.by_name_.try_emplace(tensor.name, i);
    if (is_new) continue;
    const TensorInfo& first = checkpoint.tensors_[other->second];
    problems.push_back(fmt::format("tensor {} is both in {} and in {}, and no index decides",
                                   quoted_for_message(tensor.name),
                                   checkpoint.shards_[static_cast<size_t>(first.shard)].name,
                                   checkpoint.shards_[static_cast<size_t>(tensor.shard)].name));
  }
  if (index && listed < index->file_of_tensor.size()) {
    std::map<std::string, int> absent;  // sorted, so that the message is the same every time
    for (const auto& [name, file] : index->file_of_tensor) {
      const TensorInfo* tensor = checkpoint.find(name);
      if (tensor == nullptr || tensor->shard != file) absent.emplace(name, file);
    }
    for (const auto& [name, file] : absent) {
      if (problems.size() == kMostNamedTensors) break;
      problems.push_back(fmt::format("tensor {} is listed in {}, but {} does not hold it",
                                     quoted_for_message(name), kIndexName,
                                     names[static_cast<size_t>(file)]));
    }
    if (absent.size() > kMostNamedTensors) {
      problems.push_back(
          fmt::format("{} tensors in all are listed in {} but not held by their file",
                      absent.size(), kIndexName));
    }
  }
  if (!problems.empty()) fail_with(where, problems);
  if (index && index->total_size && *index->total_size != checkpoint.payload_bytes()) {
    log::debug("{}: {} says total_size {}, the headers add up to {}", where, kIndexName,
               *index->total_size, checkpoint.payload_bytes());
  }
  return checkpoint;
}

Checkpoint Checkpoint::of_parts(std::string folder, std::vector<Shard> shards,
                                std::vector<TensorInfo> tensors) {
  Checkpoint checkpoint;
  checkpoint.folder_ = std::move(folder);
  checkpoint.shards_ = std::move(shards);
  checkpoint.tensors_ = std::move(tensors);
  checkpoint.by_name_.reserve(checkpoint.tensors_.size());
  for (size_t i = 0; i < checkpoint.tensors_.size(); ++i) {
    checkpoint.by_name_.try_emplace(checkpoint.tensors_[i].name, i);
  }
  return checkpoint;
}

const TensorInfo* Checkpoint::find(std::string_view name) const {
  const auto place = by_name_.find(name);
  return place == by_name_.end() ? nullptr : &tensors_[place->second];
}

uint64_t Checkpoint::payload_bytes() const {
  uint64_t sum = 0;
  for (const TensorInfo& tensor : tensors_) sum += tensor.bytes;
  return sum;
}

void Checkpoint::read(const TensorInfo& tensor, std::span<std::byte> into) const {
  assert(into.size() == tensor.bytes);
  read(tensor, 0, into);
}

void Checkpoint::read(const TensorInfo& tensor, uint64_t begin, std::span<std::byte> into) const {
  assert(begin + into.size() <= tensor.bytes);
  shards_[static_cast<size_t>(tensor.shard)].file.read_at(tensor.offset + begin, into);
}

}  // namespace fathom
