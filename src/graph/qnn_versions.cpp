#include "graph/qnn_versions.h"

#include <algorithm>
#include <filesystem>
#include <vector>

#include "base/error.h"
#include "base/file.h"

namespace fathom {
namespace {

namespace fs = std::filesystem;

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// A release at the beginning of `text`: three numbers of up to three digits and a date of 12.
std::string release_at(std::string_view text) {
  size_t at = 0;
  for (int part = 0; part < 3; ++part) {
    const size_t begin = at;
    while (at < text.size() && is_digit(text[at])) ++at;
    if (at == begin || at - begin > 3 || at >= text.size() || text[at] != '.') return "";
    ++at;
  }
  const size_t begin = at;
  while (at < text.size() && is_digit(text[at])) ++at;
  if (at - begin != 12) return "";
  return std::string(text.substr(0, at));
}

std::string release_in(std::string_view text) {
  for (size_t at = 0; at < text.size(); ++at) {
    if (!is_digit(text[at]) || (at > 0 && (is_digit(text[at - 1]) || text[at - 1] == '.'))) {
      continue;
    }
    std::string found = release_at(text.substr(at));
    if (!found.empty()) return found;
  }
  return "";
}

}  // namespace

std::optional<std::string> qnn_version_in(const std::string& path) {
  constexpr size_t kPiece = size_t{4} << 20;
  constexpr size_t kOverlap = 64;
  try {
    const File file(path);
    std::string text;
    for (uint64_t offset = 0; offset < file.size(); offset += kPiece) {
      text.resize(std::min<uint64_t>(kPiece + kOverlap, file.size() - offset));
      file.read_at(offset, std::as_writable_bytes(std::span(text)));
      std::string found = release_in(text);
      if (!found.empty()) return found;
    }
  } catch (const Error&) {
    // Without a readable file there is no version to tell.
  }
  return std::nullopt;
}

std::optional<std::string> qnn_version_mismatch(const std::string& message,
                                                const std::string& model,
                                                const GraphOptions& options) {
  if (message.find("1008") == std::string::npos) return std::nullopt;
  // The binary lies beside the graph that names it, unless it is embedded.
  std::optional<std::string> made_by = qnn_version_in(model);
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(fs::path(model).parent_path(), ignored)) {
    if (made_by) break;
    if (entry.path().extension() == ".bin") made_by = qnn_version_in(entry.path().string());
  }
  const auto backend = options.find("backend_path");
  const std::string library = backend == options.end() ? "" : backend->second;
  const std::optional<std::string> runs_on =
      library.empty() ? std::nullopt : qnn_version_in(library);
  return fmt::format(
      "QNN error 1008, the context binary belongs to another QNN release: the binary was made by "
      "{}, the backend library {} is {}. Use the QNN libraries of the release that made the "
      "binary, or make the binary anew with this one (provider's message: {})",
      made_by ? "QNN " + *made_by : "a release that it does not name",
      library.empty() ? "(the provider's own)" : library,
      runs_on ? "QNN " + *runs_on : "of a release that it does not name", message);
}

}  // namespace fathom
