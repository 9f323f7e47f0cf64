// What lies in a model folder, by names alone.
#pragma once

#include <string>
#include <vector>

namespace fathom {

inline constexpr const char* kIndexName = "model.safetensors.index.json";

// Names of the *.safetensors files (or links) in `folder`, sorted; hidden ones are left out, which
// other systems' archives leave behind. Error(io) where the folder cannot be read.
std::vector<std::string> safetensors_names(const std::string& folder);

// True where `path` is there, be it a link that leads nowhere.
bool path_exists(const std::string& path);

// Why `folder`/`name` cannot be opened: "is missing", or "is a link to T, which does not exist";
// empty where it is there.
std::string why_absent(const std::string& folder, const std::string& name);

// File names that belong to one set: stem-00001-of-00003.safetensors.
struct ShardSet {
  std::string stem;
  std::string count_text;            // "00003"
  std::vector<std::string> present;  // of those in the folder
  std::vector<std::string> missing;  // names; empty where complete
};
std::vector<ShardSet> shard_sets(const std::vector<std::string>& names);

// What the folder holds instead of safetensors files, as a hint for a message; may be empty.
std::string hint_without_safetensors(const std::string& folder);

}  // namespace fathom
