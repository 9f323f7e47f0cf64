#include "checkpoint/inventory.h"

#include <algorithm>
#include <array>
#include <filesystem>

#include "checkpoint/model_folder.h"

namespace fathom {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostFiles = 100'000;
constexpr int kDeepest = 8;

bool ends_with_any(std::string_view text, std::initializer_list<std::string_view> ends) {
  return std::any_of(ends.begin(), ends.end(),
                     [text](std::string_view end) { return text.ends_with(end); });
}

std::string lower_case(std::string text) {
  for (char& c : text) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + 32);
  }
  return text;
}

FileRole role_of(const std::string& path) {
  const std::string name = path.substr(path.rfind('/') + 1);
  const std::string lower = lower_case(name);
  if (name.ends_with(".incomplete")) return FileRole::download_leftover;
  if (path.starts_with(".cache/")) return FileRole::download_metadata;
  if (path.starts_with(".git/") || name.starts_with(".git")) return FileRole::version_control;
  if (name.ends_with(".safetensors")) return FileRole::weights;
  if (name == kIndexName) return FileRole::index;
  if (name == "config.json") return FileRole::config;
  if (name == "generation_config.json") return FileRole::generation_defaults;
  if (name == "chat_template.jinja" || name == "chat_template.json") return FileRole::chat_template;
  if (lower.find("token") != std::string::npos || name == "vocab.json" || name == "merges.txt" ||
      name.ends_with(".tiktoken")) {
    return FileRole::tokenizer;
  }
  if (lower.starts_with("readme")) return FileRole::model_card;
  if (lower.starts_with("licen") || lower.starts_with("notice")) return FileRole::licence;
  if (name.ends_with(".py")) return FileRole::code;
  if (ends_with_any(lower, {".gguf", ".bin", ".pt", ".pth", ".onnx", ".msgpack", ".h5"})) {
    return FileRole::other_weights;
  }
  return FileRole::other;
}

class Walker {
 public:
  explicit Walker(const fs::path& root) : root_(root) {}

  void walk(const fs::path& folder, const std::string& prefix, int depth) {
    std::error_code error;
    fs::directory_iterator entry(folder, error);
    for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
      const std::string path = prefix + entry->path().filename().string();
      std::error_code ignored;
      if (fs::is_directory(entry->symlink_status(ignored))) {
        if (depth < kDeepest) walk(entry->path(), path + "/", depth + 1);
        continue;
      }
      add(entry->path(), path);
      if (inventory_.cut_short) return;
    }
    if (error) {
      inventory_.problems.push_back(folder.string() + ": cannot be listed: " + error.message());
    }
  }

  // In the hub's cache a download writes to the blobs, not into the snapshot.
  void look_beside_snapshot() {
    const fs::path snapshots = fs::absolute(root_).lexically_normal().parent_path();
    std::error_code error;
    const fs::path blobs = snapshots.parent_path() / "blobs";
    if (snapshots.filename() != "snapshots" || !fs::is_directory(blobs, error)) return;
    fs::directory_iterator entry(blobs, error);
    for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
      const std::string name = entry->path().filename().string();
      if (name.ends_with(".incomplete")) add(entry->path(), "../../blobs/" + name);
    }
  }

  Inventory take() {
    std::sort(inventory_.files.begin(), inventory_.files.end(),
              [](const InventoryFile& a, const InventoryFile& b) { return a.path < b.path; });
    return std::move(inventory_);
  }

 private:
  void add(const fs::path& where, const std::string& path) {
    if (inventory_.files.size() == kMostFiles) {
      inventory_.cut_short = true;
      return;
    }
    InventoryFile file;
    file.path = path;
    file.role = role_of(path);
    std::error_code error;
    file.link = fs::is_symlink(fs::symlink_status(where, error));
    const uintmax_t bytes = fs::file_size(where, error);
    if (!error) file.bytes = bytes;
    file.broken = file.link && !fs::exists(where, error);
    inventory_.files.push_back(std::move(file));
  }

  fs::path root_;
  Inventory inventory_;
};

}  // namespace

std::string_view role_name(FileRole role) {
  static constexpr std::array<std::string_view, static_cast<size_t>(FileRole::count)> kNames = {
      "weights",
      "index",
      "config",
      "generation defaults",
      "tokenizer",
      "chat template",
      "model card",
      "licence",
      "code",
      "weights in another format",
      "download notes",
      "aborted downloads",
      "version control",
      "other"};
  return kNames[static_cast<size_t>(role)];
}

uint64_t Inventory::bytes() const {
  uint64_t sum = 0;
  for (const InventoryFile& file : files) sum += file.bytes;
  return sum;
}

Inventory::Share Inventory::of(FileRole role) const {
  Share share;
  for (const InventoryFile& file : files) {
    if (file.role != role) continue;
    ++share.files;
    share.bytes += file.bytes;
  }
  return share;
}

Inventory take_inventory(const std::string& folder) {
  Walker walker(folder);
  walker.walk(folder, "", 0);
  walker.look_beside_snapshot();
  return walker.take();
}

}  // namespace fathom
