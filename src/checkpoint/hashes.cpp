#include "checkpoint/hashes.h"

#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>

#include "base/buffer.h"
#include "base/error.h"
#include "base/json.h"
#include "base/json_sax.h"

namespace fathom {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kPiece = uint64_t{8} << 20;
constexpr std::string_view kMetadata = ".metadata";
constexpr const char* kRecordFormat = "fathom verify hashes";

struct FreeDigest {
  void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
};

class Digest {
 public:
  explicit Digest(HashKind kind) : context_(EVP_MD_CTX_new()) {
    const EVP_MD* algorithm = kind == HashKind::sha256 ? EVP_sha256() : EVP_sha1();
    check(context_ != nullptr && EVP_DigestInit_ex(context_.get(), algorithm, nullptr) == 1);
  }
  void add(const void* bytes, size_t count) {
    check(EVP_DigestUpdate(context_.get(), bytes, count) == 1);
  }
  std::string hex() {
    std::array<unsigned char, EVP_MAX_MD_SIZE> bytes;
    unsigned count = 0;
    check(EVP_DigestFinal_ex(context_.get(), bytes.data(), &count) == 1);
    std::string text;
    for (unsigned i = 0; i < count; ++i) text += fmt::format("{:02x}", bytes[i]);
    return text;
  }

 private:
  static void check(bool good) {
    if (!good) fail(ErrorKind::io, "the cryptographic library refuses to compute a hash");
  }
  std::unique_ptr<EVP_MD_CTX, FreeDigest> context_;
};

bool is_hex(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
  });
}

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  return result;
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.back() == '\r' || text.back() == ' ')) text.remove_suffix(1);
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  return text;
}

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    lines.push_back(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return lines;
}

// A name that stays inside the folder.
bool is_inside(const std::string& name) {
  if (name.empty() || name.find('\0') != std::string::npos) return false;
  const fs::path path(name);
  return path.is_relative() &&
         std::none_of(path.begin(), path.end(), [](const fs::path& part) { return part == ".."; });
}

// Second line of a .metadata file.
void add_metadata(const fs::path& path, const std::string& name, KnownHashes* known) {
  constexpr uint64_t kMostBytes = 4096;
  try {
    const std::string text = read_text(path.string(), kMostBytes);
    const std::vector<std::string_view> lines = lines_of(text);
    const std::optional<ContentHash> hash =
        lines.size() < 2 ? std::nullopt : parse_content_hash(lines[1]);
    if (hash) {
      known->files.push_back({name, *hash, path.string()});
    } else {
      known->notes.push_back(
          fmt::format("{}: its second line is no SHA-256 and no git blob SHA-1", path.string()));
    }
  } catch (const Error& error) {
    known->notes.emplace_back(error.what());
  }
}

void add_client_metadata(const std::string& folder, KnownHashes* known) {
  const fs::path root = fs::path(folder) / ".cache" / "huggingface" / "download";
  std::error_code error;
  for (fs::recursive_directory_iterator at(root, error), end; !error && at != end;
       at.increment(error)) {
    const std::string relative = at->path().lexically_relative(root).string();
    if (!relative.ends_with(kMetadata) || !at->is_regular_file(error)) continue;
    add_metadata(at->path(), relative.substr(0, relative.size() - kMetadata.size()), known);
  }
}

// In the hub's cache a snapshot's files are links to blobs/HASH.
void add_blob_names(const std::string& folder, KnownHashes* known) {
  std::error_code error;
  for (fs::recursive_directory_iterator at(folder, error), end; !error && at != end;
       at.increment(error)) {
    if (!at->is_symlink(error)) continue;
    const fs::path target = fs::read_symlink(at->path(), error);
    if (target.parent_path().filename() != "blobs") continue;
    if (const auto hash = parse_content_hash(target.filename().string())) {
      known->files.push_back(
          {at->path().lexically_relative(folder).string(), *hash, "the blob's name"});
    }
  }
}

void sort_by_name(KnownHashes* known) {
  std::sort(known->files.begin(), known->files.end(),
            [](const KnownHash& a, const KnownHash& b) { return a.name < b.name; });
}

}  // namespace

std::optional<ContentHash> parse_content_hash(std::string_view text) {
  text = trimmed(text);
  if (text.starts_with("W/")) text.remove_prefix(2);
  if (text.size() >= 2 && text.front() == '"' && text.back() == '"') {
    text = text.substr(1, text.size() - 2);
  }
  if ((text.size() != 64 && text.size() != 40) || !is_hex(text)) return std::nullopt;
  return ContentHash{text.size() == 64 ? HashKind::sha256 : HashKind::git_blob_sha1, lower(text)};
}

std::string hash_file(const File& file, HashKind kind,
                      const std::function<void(uint64_t)>& advance) {
  Digest digest(kind);
  if (kind == HashKind::git_blob_sha1) {
    const std::string beginning = fmt::format("blob {}", file.size());
    digest.add(beginning.c_str(), beginning.size() + 1);  // with the zero byte
  }
  const Buffer buffer(static_cast<size_t>(std::clamp<uint64_t>(file.size(), 1, kPiece)));
  for (uint64_t at = 0; at < file.size();) {
    const auto count = static_cast<size_t>(std::min(kPiece, file.size() - at));
    file.read_at(at, buffer.bytes().first(count));
    digest.add(buffer.data(), count);
    file.drop_cached(at, count);
    at += count;
    advance(count);
  }
  return digest.hex();
}

KnownHashes hashes_of_download(const std::string& folder) {
  KnownHashes known;
  add_client_metadata(folder, &known);
  if (known.files.empty()) add_blob_names(folder, &known);
  sort_by_name(&known);
  return known;
}

KnownHashes hashes_of_list(const std::string& path) {
  const std::string text = read_text(path, uint64_t{64} << 20);
  KnownHashes known;
  std::map<std::string, size_t> seen;
  size_t number = 0;
  for (const std::string_view line : lines_of(text)) {
    ++number;
    if (trimmed(line).empty() || line.front() == '#') continue;
    // Hash, a space, a space or the asterisk of binary mode, name.
    const bool shaped = line.size() > 66 && line[64] == ' ' && (line[65] == ' ' || line[65] == '*');
    const auto hash = shaped ? parse_content_hash(line.substr(0, 64)) : std::nullopt;
    if (!hash) {
      fail_input(
          "{}:{}: not a line of sha256sum: 64 hex digits, two spaces and a name are expected", path,
          number);
    }
    std::string_view name = line.substr(66);
    if (name.ends_with('\r')) name.remove_suffix(1);
    while (name.starts_with("./")) name.remove_prefix(2);
    const std::string plain(name);
    if (!is_inside(plain)) {
      fail_input("{}:{}: {} is not a file inside of the checkpoint's folder", path, number,
                 quoted_for_message(plain));
    }
    const auto [before, is_new] = seen.try_emplace(plain, number);
    if (!is_new) {
      fail_input("{}:{}: {} is listed on line {} already", path, number, quoted_for_message(plain),
                 before->second);
    }
    known.files.push_back({plain, *hash, path});
  }
  if (known.files.empty()) fail_input("{}: there is no hash in it", path);
  sort_by_name(&known);
  return known;
}

int64_t HashRecord::change_time(const std::string& path) {
  std::error_code error;
  const fs::file_time_type time = fs::last_write_time(path, error);
  if (error) fail(ErrorKind::io, "{}: {}", path, error.message());
  return std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
}

HashRecord::HashRecord(const std::string& path, const std::string& folder)
    : file_(path), folder_(folder) {
  constexpr uint64_t kMostBytes = uint64_t{64} << 20;
  if (file_.size() > kMostBytes) fail_input("{}: it is too large for a record of hashes", path);
  std::string text(static_cast<size_t>(file_.size()), '\0');
  file_.read_at(0, std::as_writable_bytes(std::span(text)));
  const size_t last = text.rfind('\n');
  const size_t whole = last == std::string::npos ? 0 : last + 1;
  const std::string beginning =
      nlohmann::ordered_json({{"format", kRecordFormat}, {"folder", folder}})
          .dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) +
      "\n";
  if (whole == 0) {
    // New, or killed while the first line was written; anything else is not ours to overwrite.
    if (!beginning.starts_with(text)) {
      fail_input("{}: it is not a record of hashes; name another file", path);
    }
    file_.truncate(0);
    file_.write_at(0, std::as_bytes(std::span(beginning)));
    end_ = beginning.size();
    return;
  }
  text.resize(whole);
  size_t number = 0;
  for (const std::string_view line : lines_of(text)) take_line(line, ++number);
  file_.truncate(whole);
  end_ = whole;
}

void HashRecord::take_line(std::string_view line, size_t number) {
  const std::string where = fmt::format("{}:{}", file_.path(), number);
  nlohmann::json json;
  try {
    json = parse_json(line, where);
  } catch (const Error&) {
    fail_input("{}: it is not a record of hashes; name another file", where);
  }
  const auto text = [&](const char* name) {
    const bool there = json.is_object() && json.contains(name) && json[name].is_string();
    return there ? json[name].get<std::string>() : std::string();
  };
  if (number == 1) {
    if (text("format") != kRecordFormat) {
      fail_input("{}: it is not a record of hashes; name another file", where);
    }
    if (text("folder") != folder_) {
      fail_input("{}: this record is about {} and not about {}; name another file", where,
                 text("folder"), folder_);
    }
    return;
  }
  const std::optional<ContentHash> hash = parse_content_hash(text("hash"));
  const bool numbers = json.is_object() && json.contains("size") &&
                       json["size"].is_number_unsigned() && json.contains("changed") &&
                       json["changed"].is_number_integer();
  if (!hash || !numbers || text("name").empty()) fail_input("{}: a damaged line", where);
  entries_[text("name")] = {*hash, json["size"].get<uint64_t>(), json["changed"].get<int64_t>()};
}

std::string HashRecord::line_of(const std::string& name, const Entry& entry) {
  return nlohmann::ordered_json({{"name", name},
                                 {"size", entry.size},
                                 {"changed", entry.changed},
                                 {"hash", entry.hash.hex}})
             .dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) +
         "\n";
}

std::optional<std::string> HashRecord::find(const std::string& name, HashKind kind) const {
  const std::lock_guard lock(mutex_);
  const auto entry = entries_.find(name);
  if (entry == entries_.end() || entry->second.hash.kind != kind) return std::nullopt;
  const std::string path = (fs::path(folder_) / name).string();
  std::error_code error;
  if (fs::file_size(path, error) != entry->second.size || error) return std::nullopt;
  if (change_time(path) != entry->second.changed) return std::nullopt;
  return entry->second.hash.hex;
}

void HashRecord::add(const std::string& name, const ContentHash& hash, uint64_t size,
                     int64_t changed) {
  const std::lock_guard lock(mutex_);
  const Entry entry{hash, size, changed};
  const std::string line = line_of(name, entry);
  file_.write_at(end_, std::as_bytes(std::span(line)));
  end_ += line.size();
  file_.sync();
  entries_[name] = entry;
}

}  // namespace fathom
