// Content hashes of a checkpoint's files: what they should be, and what they are.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/locked_file.h"

namespace fathom {

enum class HashKind : uint8_t {
  sha256,         // files in large-file storage
  git_blob_sha1,  // others: SHA-1 of "blob SIZE", a zero byte and the content
};

struct ContentHash {
  HashKind kind = HashKind::sha256;
  std::string hex;  // lower case
  bool operator==(const ContentHash&) const = default;
};
// By the number of hex digits (64 or 40); nothing where the text is no such hash. Quotes and the
// "W/" of weak etags are taken off.
std::optional<ContentHash> parse_content_hash(std::string_view text);

// Hashes a whole file in pieces that leave the page cache again; `advance` is told of each one's
// bytes and may throw to stop.
std::string hash_file(const File& file, HashKind kind,
                      const std::function<void(uint64_t)>& advance);

// What a file's content should be.
struct KnownHash {
  std::string name;  // inside the folder
  ContentHash hash;
  std::string source;  // where it is said
};
struct KnownHashes {
  std::vector<KnownHash> files;
  std::vector<std::string> notes;  // what could not be used, for people
};
// From what the hub client left behind: .cache/huggingface/download/NAME.metadata, or in the hub's
// own cache the names of the blobs that the files are links to.
KnownHashes hashes_of_download(const std::string& folder);
// From lines as sha256sum writes them; Error(input) with the line where there is another one.
KnownHashes hashes_of_list(const std::string& path);

// Hashes that were computed before, in a file that grows by a line per file hashed. An entry counts
// as long as the file's size and time of change are the same. A line that a killed process left
// half-written is cut off. Any thread may call it.
class HashRecord {
 public:
  // Error(input) where the file is something else, or is about another folder.
  HashRecord(const std::string& path, const std::string& folder);

  std::optional<std::string> find(const std::string& name, HashKind kind) const;
  // `changed` is change_time() from before the hashing.
  void add(const std::string& name, const ContentHash& hash, uint64_t size, int64_t changed);

  static int64_t change_time(const std::string& path);

 private:
  struct Entry {
    ContentHash hash;
    uint64_t size = 0;
    int64_t changed = 0;
  };
  static std::string line_of(const std::string& name, const Entry& entry);
  void take_line(std::string_view line, size_t number);

  LockedFile file_;
  std::string folder_;
  uint64_t end_ = 0;
  std::map<std::string, Entry> entries_;
  mutable std::mutex mutex_;
};

}  // namespace fathom
