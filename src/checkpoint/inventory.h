// What lies in a model folder, file by file, and what for.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace fathom {

enum class FileRole : uint8_t {
  weights,
  index,
  config,
  generation_defaults,
  tokenizer,
  chat_template,
  model_card,
  licence,
  code,
  other_weights,      // formats that are not read here
  download_metadata,  // the hub client's notes
  download_leftover,  // *.incomplete
  version_control,
  other,
  count
};
std::string_view role_name(FileRole role);

struct InventoryFile {
  std::string path;  // inside the folder
  FileRole role = FileRole::other;
  uint64_t bytes = 0;  // of the file behind a link; 0 where that is missing
  bool link = false;
  bool broken = false;  // a link that leads nowhere
};

struct Inventory {
  std::vector<InventoryFile> files;  // by path
  std::vector<std::string> problems;
  bool cut_short = false;  // more files than are listed

  uint64_t bytes() const;
  // Files of one role and their bytes.
  struct Share {
    size_t files = 0;
    uint64_t bytes = 0;
  };
  Share of(FileRole role) const;
};

// Folders below are looked into, links to folders are not. Of a snapshot in the hub's cache, the
// leftovers among the blobs beside it are listed too (as "../../blobs/NAME").
Inventory take_inventory(const std::string& folder);

}  // namespace fathom
