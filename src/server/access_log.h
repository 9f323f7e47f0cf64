// One JSON line for every request: who, what, how it ended, what it took. No keys and, unless asked
// for, no prompts.
#pragma once

#include <cstdint>
#include <fstream>
#include <mutex>
#include <optional>
#include <string>

namespace fathom::server {

struct AccessRecord {
  std::string request_id;
  std::string peer;
  std::string method;
  std::string path;  // as a route; unknown ones are "other" in metrics, and written here as sent
  int status = 0;    // 0: the client went away before there was an answer
  double seconds = 0;
  uint64_t bytes_in = 0;
  uint64_t bytes_out = 0;
  std::string problem;  // the error's message
  std::string prompt;   // the request's body, where prompts are logged

  // Of generations.
  std::optional<std::string> model;
  std::optional<uint64_t> seed;
  std::optional<double> first_token_seconds;
  std::string finish;  // "stop", "length", "tool_calls", "error", "gone", "slow"
  int64_t prompt_tokens = 0;
  int64_t cached_tokens = 0;
  int64_t completion_tokens = 0;
  int64_t reasoning_tokens = 0;
};

class AccessLog {
 public:
  // "": none; "-": standard error; else a file that is appended to. Error(io) where it cannot be.
  explicit AccessLog(const std::string& path);
  void write(const AccessRecord& record);

 private:
  bool to_stderr_ = false;
  std::mutex mutex_;
  std::ofstream file_;
};

}  // namespace fathom::server
