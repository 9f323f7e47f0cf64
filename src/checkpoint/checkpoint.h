// A checkpoint folder: its shards, and every tensor's place.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/file.h"
#include "checkpoint/safetensors.h"

namespace fathom {

struct Shard {
  std::string name;  // file name inside the folder
  File file;
  uint64_t header_bytes = 0;
};

// Accepts a plain folder, a hub-cache snapshot (relative links), or a hub-cache model folder
// ("models--org--name", whose refs/main picks the snapshot). With model.safetensors.index.json only
// the files it names are opened, and it decides between duplicates; without one every *.safetensors
// file is opened and a duplicate name is an error. Everything that is missing or wrong is collected
// into one Error(input).
class Checkpoint {
 public:
  static Checkpoint open(const std::string& folder);
  // Of what was read already, for examining damaged folders: nothing is checked. Of tensors with
  // the same name the first one is found.
  static Checkpoint of_parts(std::string folder, std::vector<Shard> shards,
                             std::vector<TensorInfo> tensors);

  const std::string& folder() const { return folder_; }  // after following refs/main
  const std::vector<Shard>& shards() const { return shards_; }
  const std::vector<TensorInfo>& tensors() const { return tensors_; }
  const TensorInfo* find(std::string_view name) const;  // nullptr where there is none
  uint64_t payload_bytes() const;

  // Copies a tensor's bytes as they are stored; `into` has exactly tensor.bytes.
  void read(const TensorInfo& tensor, std::span<std::byte> into) const;
  // A part of them, from byte `begin` of the tensor on.
  void read(const TensorInfo& tensor, uint64_t begin, std::span<std::byte> into) const;

 private:
  std::string folder_;
  std::vector<Shard> shards_;
  std::vector<TensorInfo> tensors_;
  std::unordered_map<std::string_view, size_t> by_name_;
};

// Where `path` (a folder as the user gave it) keeps its files: itself, or the snapshot behind a
// hub-cache model folder. Error(io) where there is no such folder.
std::string resolve_model_folder(const std::string& path);

}  // namespace fathom
