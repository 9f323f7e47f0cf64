#include "server/access_log.h"

#include <fmt/chrono.h>

#include <chrono>
#include <iostream>

#include "base/error.h"
#include "text/json_output.h"

namespace fathom::server {
namespace {

std::string time_text() {
  const auto now = std::chrono::system_clock::now();
  const auto seconds = std::chrono::floor<std::chrono::seconds>(now);
  const auto milliseconds = std::chrono::floor<std::chrono::milliseconds>(now - seconds);
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03d}Z",
                     fmt::gmtime(std::chrono::system_clock::to_time_t(seconds)),
                     milliseconds.count());
}

}  // namespace

AccessLog::AccessLog(const std::string& path) : to_stderr_(path == "-") {
  if (path.empty() || to_stderr_) return;
  file_.open(path, std::ios::app);
  if (!file_) fail(ErrorKind::io, "{}: cannot be written to", path);
}

void AccessLog::write(const AccessRecord& record) {
  if (!to_stderr_ && !file_.is_open()) return;
  JsonObject line;
  line.text("time", time_text())
      .text("request_id", record.request_id)
      .text("peer", record.peer)
      .text("method", record.method)
      .text("path", record.path)
      .integer("status", record.status)
      .number("seconds", record.seconds)
      .natural("bytes_in", record.bytes_in)
      .natural("bytes_out", record.bytes_out);
  if (record.model) {
    line.text("model", *record.model)
        .text("finish", record.finish)
        .integer("prompt_tokens", record.prompt_tokens)
        .integer("cached_tokens", record.cached_tokens)
        .integer("completion_tokens", record.completion_tokens)
        .integer("reasoning_tokens", record.reasoning_tokens)
        .number("first_token_seconds", record.first_token_seconds);
    if (record.seed) line.natural("seed", *record.seed);
  }
  if (!record.problem.empty()) line.text("error", record.problem);
  if (!record.prompt.empty()) line.text("request", record.prompt);
  const std::string text = line.str() + "\n";
  const std::lock_guard lock(mutex_);
  std::ostream& out = to_stderr_ ? std::cerr : file_;
  out << text << std::flush;
}

}  // namespace fathom::server
