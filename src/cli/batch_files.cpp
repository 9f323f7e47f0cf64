#include "cli/batch_files.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <span>
#include <unordered_map>
#include <unordered_set>

#include "base/error.h"
#include "base/hash.h"
#include "base/json.h"

namespace fathom::cli {
namespace {

using nlohmann::json;

constexpr uint64_t kPieceBytes = uint64_t{1} << 20;
constexpr uint64_t kMostLineBytes = uint64_t{64} << 20;
constexpr int64_t kOk = 200;
constexpr int64_t kServerError = 500;

// Calls `take(number, offset, line, whole)` for every line; the last one is not whole where the
// file does not end with a newline.
template <typename AnyFile, typename Take>
void for_each_line(const AnyFile& file, uint64_t size, const Take& take) {
  std::string line;
  std::string piece;
  uint64_t number = 1;
  uint64_t begin = 0;
  for (uint64_t at = 0; at < size;) {
    piece.resize(std::min(kPieceBytes, size - at));
    file.read_at(at, std::as_writable_bytes(std::span(piece.data(), piece.size())));
    at += piece.size();
    for (size_t from = 0; from < piece.size();) {
      const size_t newline = piece.find('\n', from);
      const size_t end = newline == std::string::npos ? piece.size() : newline;
      line.append(piece, from, end - from);
      if (line.size() > kMostLineBytes) {
        fail_input("{}: line {} is longer than {} bytes", file.path(), number, kMostLineBytes);
      }
      if (newline == std::string::npos) break;
      take(number, begin, line, true);
      begin += line.size() + 1;
      ++number;
      line.clear();
      from = newline + 1;
    }
  }
  if (!line.empty()) take(number, begin, line, false);
}

bool is_blank(std::string_view line) {
  return line.find_first_not_of(" \t\r") == std::string_view::npos;
}

// What an earlier run has written.
struct OldAnswer {
  std::string id;
  std::string custom_id;
  int64_t status = 0;
  std::string model;
};

OldAnswer read_answer(const std::string& text, const std::string& where) {
  const json answer = parse_json(text, where);
  try {
    OldAnswer old;
    old.id = answer.at("id").get<std::string>();
    if (const json& custom_id = answer.at("custom_id"); !custom_id.is_null()) {
      old.custom_id = custom_id.get<std::string>();
    }
    old.status = answer.at("response").at("status_code").get<int64_t>();
    if (old.status == kOk) {
      old.model = answer.at("response").at("body").at("model").get<std::string>();
    }
    return old;
  } catch (const json::exception& error) {
    fail_input("{}: it is not an answer of a batch ({})", where, error.what());
  }
}

}  // namespace

uint64_t batch_seed(uint64_t seed, const std::string& custom_id) {
  const std::string text = std::to_string(seed) + ":" + custom_id;
  // Whole in every JSON reader.
  return hash64(std::as_bytes(std::span(text.data(), text.size()))) >> 11;
}

BatchRequests::BatchRequests(const std::string& path, const BatchDefaults& defaults)
    : file_(path), defaults_(defaults) {
  std::unordered_map<std::string, uint64_t> seen;
  for_each_line(
      file_, file_.size(), [&](uint64_t number, uint64_t offset, const std::string& text, bool) {
        if (is_blank(text)) return;
        BatchLine line = examine(number, offset, text);
        if (!line.custom_id.empty() && line.problem.empty()) {
          const auto [first, fresh] = seen.emplace(line.custom_id, number);
          if (!fresh) {
            line.problem = fmt::format("custom_id: '{}' stands in line {} already", line.custom_id,
                                       first->second);
            line.id = "batch_req_" + hash128(fmt::format("line {}\n{}", number, text)).hex();
          }
        }
        lines_.push_back(std::move(line));
      });
}

BatchLine BatchRequests::examine(uint64_t number, uint64_t offset, const std::string& text) const {
  BatchLine line;
  line.number = number;
  line.offset = offset;
  line.bytes = text.size();
  // Until it is known to be in order, the line's place and text are all there is to know it by.
  line.id = "batch_req_" + hash128(fmt::format("line {}\n{}", number, text)).hex();
  try {
    const json request = parse_json(text, fmt::format("line {}", number));
    if (!request.is_object()) fail_input("line {}: it is not an object", number);
    const auto field = [&](const char* name) {
      const auto at = request.find(name);
      if (at == request.end() || !at->is_string() || at->get<std::string>().empty()) {
        fail_input("{}: it is missing, empty or no string", name);
      }
      return at->get<std::string>();
    };
    line.custom_id = field("custom_id");
    if (const std::string method = field("method"); method != "POST") {
      fail_input("method: '{}' is not POST", method);
    }
    if (const std::string url = field("url"); !server::endpoint_of(url)) {
      fail_input("url: '{}' is neither /v1/chat/completions nor /v1/completions", url);
    }
    const auto body = request.find("body");
    if (body == request.end() || !body->is_object()) fail_input("body: it is not an object");
    const std::string everything =
        fmt::format("{}\n{}\n{}\n{}\n{}", line.custom_id, request["url"].get<std::string>(),
                    body->dump(), defaults_.max_tokens, batch_seed(defaults_.seed, line.custom_id));
    line.id = "batch_req_" + hash128(everything).hex();
  } catch (const Error& error) {
    line.problem = error.what();
  }
  return line;
}

BatchRequests::Content BatchRequests::read(const BatchLine& line) const {
  std::string text(line.bytes, '\0');
  file_.read_at(line.offset, std::as_writable_bytes(std::span(text.data(), text.size())));
  if (examine(line.number, line.offset, text).id != line.id) {
    fail_input("{}: line {} has changed since the batch began", file_.path(), line.number);
  }
  const json request = parse_json(text, fmt::format("line {}", line.number));
  return {*server::endpoint_of(request["url"].get<std::string>()), request["body"].dump()};
}

BatchAnswers::BatchAnswers(const std::string& path, const std::string& model,
                           std::vector<BatchLine>& lines)
    : file_(path) {
  end_ = file_.size();
  std::unordered_map<std::string, uint64_t> line_of_custom_id;
  std::unordered_set<std::string> ids;
  std::unordered_set<uint64_t> out;  // numbers of the lines to take out
  for_each_line(
      file_, end_, [&](uint64_t number, uint64_t offset, const std::string& text, bool whole) {
        if (!whole) {
          // The process was killed while it wrote this.
          end_ = offset;
          cut_off_ = true;
          return;
        }
        if (is_blank(text)) return;
        const OldAnswer answer = read_answer(text, fmt::format("{}: line {}", path, number));
        if (answer.status >= kServerError) {
          out.insert(number);
          return;
        }
        if (answer.status == kOk) {
          if (answer.model != model) {
            fail_input("{}: line {}: it was answered by '{}', and this is '{}': take another --out",
                       path, number, answer.model, model);
          }
          line_of_custom_id[answer.custom_id] = number;
        }
        ids.insert(answer.id);
      });
  if (cut_off_) file_.truncate(end_);
  for (BatchLine& line : lines) {
    line.answered = ids.contains(line.id);
    if (line.answered || line.problem.size() > 0) continue;
    const auto other = line_of_custom_id.find(line.custom_id);
    if (other == line_of_custom_id.end()) continue;
    fail_input(
        "{}: line {} answers '{}' as it was asked with other contents or settings (seed, limit of "
        "tokens) than in line {} of the requests: take another --out",
        path, other->second, line.custom_id, line.number);
  }
  if (out.empty()) return;
  const File old(path);
  file_.begin_replacement();
  end_ = 0;
  for_each_line(old, old.size(), [&](uint64_t number, uint64_t, const std::string& text, bool) {
    if (out.contains(number)) return;
    const std::string line = text + "\n";
    file_.write_at(end_, std::as_bytes(std::span(line.data(), line.size())));
    end_ += line.size();
  });
  file_.sync();
  file_.commit_replacement();
  taken_out_ = static_cast<int64_t>(out.size());
}

void BatchAnswers::append(const std::string& line) {
  const std::string text = line + "\n";
  file_.write_at(end_, std::as_bytes(std::span(text.data(), text.size())));
  file_.sync();
  end_ += text.size();
}

}  // namespace fathom::cli
