#include "checkpoint/model_folder.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/join.h"
#include "base/json_sax.h"
#include "checkpoint/checkpoint.h"

namespace fathom {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kSuffix = ".safetensors";
// Sets larger than this are taken for a name that only looks like a shard's.
constexpr uint64_t kMostShards = 100'000;

// Entry names of a folder, sorted; nullopt where it cannot be read.
std::optional<std::vector<std::string>> entries(const fs::path& folder, std::error_code* error) {
  std::vector<std::string> names;
  fs::directory_iterator entry(folder, *error);
  while (!*error && entry != fs::directory_iterator()) {
    names.push_back(entry->path().filename().string());
    entry.increment(*error);
  }
  if (*error) return std::nullopt;
  std::sort(names.begin(), names.end());
  return names;
}

struct ShardName {
  std::string stem;
  uint64_t number = 0;
  uint64_t count = 0;
  std::string count_text;
  size_t digits = 0;  // of the number
};

bool is_digits(std::string_view text) {
  return !text.empty() && text.size() <= 9 &&
         text.find_first_not_of("0123456789") == std::string_view::npos;
}

uint64_t number_in(std::string_view digits) {
  uint64_t value = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), value);
  return value;
}

// "model-00002-of-000163.safetensors" -> {model, 2, 163}
std::optional<ShardName> parse_shard_name(std::string_view name) {
  if (!name.ends_with(kSuffix)) return std::nullopt;
  name.remove_suffix(kSuffix.size());
  const size_t of = name.rfind("-of-");
  if (of == std::string_view::npos || !is_digits(name.substr(of + 4))) return std::nullopt;
  const std::string_view front = name.substr(0, of);
  const size_t dash = front.rfind('-');
  if (dash == std::string_view::npos || !is_digits(front.substr(dash + 1))) return std::nullopt;
  ShardName shard;
  shard.stem = front.substr(0, dash);
  shard.number = number_in(front.substr(dash + 1));
  shard.count_text = name.substr(of + 4);
  shard.count = number_in(shard.count_text);
  shard.digits = front.size() - dash - 1;
  return shard;
}

std::string trimmed(const std::string& text) {
  const size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string::npos) return "";
  return text.substr(first, text.find_last_not_of(" \t\r\n") - first + 1);
}

// The snapshot that a hub-cache model folder's refs/main picks.
std::string snapshot_of(const fs::path& folder) {
  const fs::path ref = folder / "refs" / "main";
  const fs::path snapshots = folder / "snapshots";
  std::error_code error;
  if (!fs::exists(ref, error)) {
    std::error_code ignored;
    const auto names = entries(snapshots, &ignored).value_or(std::vector<std::string>());
    if (names.empty()) {
      fail_input("{}: a hub-cache model folder without a snapshot; the download has not finished",
                 folder.string());
    }
    fail_input("{}: a hub-cache model folder without refs/main; give one of its snapshots: {}",
               folder.string(), join(names, ", "));
  }
  const std::string revision = trimmed(read_text(ref.string(), 4096));
  const bool plain = !revision.empty() && revision != "." && revision != ".." &&
                     revision.find_first_of("/\\") == std::string::npos &&
                     revision.find('\0') == std::string::npos;
  if (!plain) {
    fail_input("{}: {} is not the name of a snapshot", ref.string(), quoted_for_message(revision));
  }
  const fs::path snapshot = snapshots / revision;
  if (!fs::is_directory(snapshot, error)) {
    fail_input("{}: it names snapshot {}, but there is no folder {}", ref.string(), revision,
               snapshot.string());
  }
  return snapshot.string();
}

}  // namespace

bool path_exists(const std::string& path) {
  std::error_code error;
  return fs::symlink_status(path, error).type() != fs::file_type::not_found && !error;
}

std::string why_absent(const std::string& folder, const std::string& name) {
  const fs::path path = fs::path(folder) / name;
  std::error_code error;
  const fs::file_type itself = fs::symlink_status(path, error).type();
  if (itself == fs::file_type::not_found) return "is missing";
  if (itself == fs::file_type::symlink && !fs::exists(path, error)) {
    const fs::path target = fs::read_symlink(path, error);
    return fmt::format("is a link to {}, which {}", target.string(),
                       error ? "leads in a circle" : "does not exist");
  }
  return "";
}

std::vector<std::string> safetensors_names(const std::string& folder) {
  std::error_code error;
  std::optional<std::vector<std::string>> names = entries(folder, &error);
  if (!names) fail(ErrorKind::io, "{}: cannot list the folder: {}", folder, error.message());
  std::erase_if(*names, [](const std::string& name) {
    return name.starts_with('.') || !name.ends_with(kSuffix);
  });
  return std::move(*names);
}

std::vector<ShardSet> shard_sets(const std::vector<std::string>& names) {
  struct Found {
    ShardName shape;
    std::set<uint64_t> numbers;
    std::vector<std::string> names;
  };
  std::map<std::pair<std::string, std::string>, Found> groups;
  for (const std::string& name : names) {
    const std::optional<ShardName> shard = parse_shard_name(name);
    if (!shard || shard->number == 0 || shard->number > shard->count ||
        shard->count > kMostShards) {
      continue;
    }
    Found& found = groups[{shard->stem, shard->count_text}];
    found.shape = *shard;
    found.numbers.insert(shard->number);
    found.names.push_back(name);
  }
  std::vector<ShardSet> sets;
  for (auto& [key, found] : groups) {
    ShardSet set{key.first, key.second, std::move(found.names), {}};
    for (uint64_t number = 1; number <= found.shape.count; ++number) {
      if (found.numbers.count(number)) continue;
      set.missing.push_back(fmt::format("{}-{:0{}}-of-{}{}", set.stem, number, found.shape.digits,
                                        set.count_text, kSuffix));
    }
    sets.push_back(std::move(set));
  }
  return sets;
}

std::string hint_without_safetensors(const std::string& folder) {
  std::error_code error;
  const auto names = entries(folder, &error).value_or(std::vector<std::string>());
  if (names.empty()) return "; the folder is empty";
  for (const std::string& name : names) {
    if (name.ends_with(".gguf") || name.ends_with(".bin") || name.ends_with(".pt") ||
        name.ends_with(".pth") || name.ends_with(".onnx")) {
      return fmt::format("; it holds {}, a format that is not read here", name);
    }
  }
  const fs::path downloads = fs::path(folder) / ".cache" / "huggingface" / "download";
  const auto partial = entries(downloads, &error).value_or(std::vector<std::string>());
  for (const std::string& name : partial) {
    if (name.ends_with(".incomplete")) return "; a download into it has not finished";
  }
  return "";
}

std::string resolve_model_folder(const std::string& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (status.type() == fs::file_type::not_found || status.type() == fs::file_type::none) {
    const bool link = fs::is_symlink(fs::symlink_status(path, error));
    if (link) {
      fail(ErrorKind::io, "{}: it is a link to {}, which does not exist", path,
           fs::read_symlink(path, error).string());
    }
    fail(ErrorKind::io, "{}: there is no such folder", path);
  }
  if (!fs::is_directory(status)) {
    fail(ErrorKind::io, "{}: not a folder; give the folder that holds config.json and the shards",
         path);
  }
  // A model folder of the hub's cache keeps files only below snapshots/.
  const fs::path folder(path);
  if (!path_exists((folder / "config.json").string()) &&
      fs::is_directory(folder / "snapshots", error) && safetensors_names(path).empty()) {
    return snapshot_of(folder);
  }
  return path;
}

}  // namespace fathom
