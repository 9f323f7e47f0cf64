#include "checkpoint/inspection_scan.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/join.h"
#include "base/json_sax.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/model_folder.h"

namespace fathom {
namespace {

constexpr uint64_t kMostIndexBytes = uint64_t{1} << 30;
constexpr size_t kNamed = 5;  // of many, named in one line

class Scanner {
 public:
  explicit Scanner(const std::string& folder) { scan_.folder = resolve_model_folder(folder); }

  HeaderScan run() {
    read_index();
    for (const std::string& name : shard_names()) read_shard(name);
    drop_duplicates();
    count();
    if (scan_.index) compare_with_index();
    return std::move(scan_);
  }

 private:
  std::string path_of(const std::string& name) const { return scan_.folder + "/" + name; }

  void read_index() {
    const std::string path = path_of(kIndexName);
    if (!path_exists(path)) return;
    try {
      scan_.index = parse_weight_index(read_text(path, kMostIndexBytes), path);
    } catch (const Error& error) {
      scan_.problems.push_back(error.what());
    }
  }

  // The files that the index names; without a usable one, those that are there.
  std::vector<std::string> shard_names() {
    const std::vector<std::string> present = safetensors_names(scan_.folder);
    if (scan_.index) {
      for (const std::string& name : present) {
        if (!std::binary_search(scan_.index->files.begin(), scan_.index->files.end(), name)) {
          scan_.not_listed.push_back(name);
        }
      }
      return scan_.index->files;
    }
    if (present.empty()) {
      scan_.problems.push_back(fmt::format("{}: no safetensors files here{}", scan_.folder,
                                           hint_without_safetensors(scan_.folder)));
    }
    std::vector<std::string> names = present;
    for (const ShardSet& set : shard_sets(present)) {
      names.insert(names.end(), set.missing.begin(), set.missing.end());
    }
    std::sort(names.begin(), names.end());
    return names;
  }

  void read_shard(const std::string& name) {
    ScannedShard shard;
    shard.name = name;
    const int number = static_cast<int>(scan_.shards.size());
    try {
      if (const std::string why = why_absent(scan_.folder, name); !why.empty()) {
        fail_input("{} {}", path_of(name), why);
      }
      const File file(path_of(name));
      shard.file_bytes = file.size();
      std::vector<ExtentProblem> places;
      SafetensorsHeader header = read_safetensors_header(file, &places);
      shard.header_bytes = header.header_bytes;
      shard.readable = true;
      tell(places, &shard);
      const size_t first = scan_.tensors.size();
      for (TensorInfo& tensor : header.tensors) {
        tensor.shard = number;
        scan_.tensors.push_back(std::move(tensor));
      }
      std::sort(scan_.tensors.begin() + static_cast<std::ptrdiff_t>(first), scan_.tensors.end(),
                [](const TensorInfo& a, const TensorInfo& b) {
                  return a.offset != b.offset ? a.offset < b.offset : a.name < b.name;
                });
    } catch (const Error& error) {
      shard.problem = error.what();
      scan_.problems.push_back(shard.problem);
    }
    scan_.shards.push_back(std::move(shard));
  }

  void tell(const std::vector<ExtentProblem>& places, ScannedShard* shard) {
    if (places.empty()) return;
    const ExtentProblem& first = places.front();
    shard->problem = fmt::format(
        "{}: {}{}", path_of(shard->name),
        first.tensor.empty() ? "" : quoted_for_message(first.tensor) + ": ", first.what);
    if (places.size() > 1) {
      shard->problem += fmt::format("; {} tensors in all are at a wrong place", places.size());
    }
    scan_.problems.push_back(shard->problem);
  }

  // The index decides between two of a name, else the first one counts and the other is a problem.
  void drop_duplicates() {
    std::unordered_map<std::string_view, int> first;
    first.reserve(scan_.tensors.size());
    std::vector<char> drop(scan_.tensors.size(), 0);
    for (size_t i = 0; i < scan_.tensors.size(); ++i) {
      const TensorInfo& tensor = scan_.tensors[i];
      if (scan_.index) {
        const auto entry = scan_.index->file_of_tensor.find(tensor.name);
        if (entry != scan_.index->file_of_tensor.end()) {
          drop[i] = entry->second != tensor.shard;
          continue;
        }
      }
      const auto [other, is_new] = first.try_emplace(tensor.name, tensor.shard);
      if (is_new) continue;
      drop[i] = 1;
      scan_.problems.push_back(fmt::format(
          "tensor {} is both in {} and in {}, and no index decides",
          quoted_for_message(tensor.name), shard_name(other->second), shard_name(tensor.shard)));
    }
    std::vector<TensorInfo> kept;
    kept.reserve(scan_.tensors.size());
    for (size_t i = 0; i < drop.size(); ++i) {
      if (!drop[i]) kept.push_back(std::move(scan_.tensors[i]));
    }
    scan_.tensors = std::move(kept);
  }

  void count() {
    for (const TensorInfo& tensor : scan_.tensors) {
      ScannedShard& shard = scan_.shards[static_cast<size_t>(tensor.shard)];
      ++shard.tensors;
      shard.payload_bytes += tensor.bytes;
    }
  }

  // Tensors listed for a file that was read and does not hold them, and tensors that are nowhere
  // listed. Those of files that could not be read are spoken for by the file's own problem.
  void compare_with_index() {
    std::unordered_map<std::string_view, int> held;
    held.reserve(scan_.tensors.size());
    std::vector<std::string> unlisted;
    for (const TensorInfo& tensor : scan_.tensors) {
      held.emplace(tensor.name, tensor.shard);
      if (!scan_.index->file_of_tensor.count(tensor.name)) unlisted.push_back(tensor.name);
    }
    std::vector<std::string> absent;
    for (const auto& [name, file] : scan_.index->file_of_tensor) {
      if (!scan_.shards[static_cast<size_t>(file)].readable) continue;
      if (!held.count(name)) absent.push_back(name);
    }
    tell(absent, fmt::format("listed in {}, but not held by their files", kIndexName));
    tell(unlisted, fmt::format("held by their files, but not listed in {}", kIndexName));
  }

  void tell(std::vector<std::string> tensors, const std::string& what) {
    if (tensors.empty()) return;
    std::sort(tensors.begin(), tensors.end());
    std::vector<std::string> some;
    for (size_t i = 0; i < std::min(kNamed, tensors.size()); ++i) {
      some.push_back(quoted_for_message(tensors[i]));
    }
    scan_.problems.push_back(fmt::format("{} tensor{} {}: {}{}", tensors.size(),
                                         tensors.size() == 1 ? "" : "s", what, join(some, ", "),
                                         tensors.size() > kNamed ? ", ..." : ""));
  }

  const std::string& shard_name(int shard) const {
    return scan_.shards[static_cast<size_t>(shard)].name;
  }

  HeaderScan scan_;
};

}  // namespace

uint64_t HeaderScan::payload_bytes() const {
  uint64_t sum = 0;
  for (const ScannedShard& shard : shards) sum += shard.payload_bytes;
  return sum;
}

uint64_t HeaderScan::file_bytes() const {
  uint64_t sum = 0;
  for (const ScannedShard& shard : shards) sum += shard.file_bytes;
  return sum;
}

HeaderScan scan_headers(const std::string& folder) { return Scanner(folder).run(); }

uint64_t value_count(const TensorInfo& tensor) {
  return tensor.bytes / static_cast<uint64_t>(dtype_bytes(tensor.dtype));
}

}  // namespace fathom
