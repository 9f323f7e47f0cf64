// What serve takes.
#include <algorithm>
#include <memory>

#include "base/error.h"
#include "base/file.h"
#include "base/units.h"
#include "cli/command_options.h"

namespace fathom::cli {
namespace {

constexpr int64_t kMostParallel = 1024;
constexpr int64_t kMostQueue = 100'000;
constexpr int64_t kMostConnections = 10'000;
constexpr int64_t kMostTokens = int64_t{1} << 40;
constexpr int64_t kMostPort = 65535;

void check_key(const std::string& key, const char* option) {
  const bool printable =
      std::all_of(key.begin(), key.end(), [](char c) { return c > ' ' && c < 0x7f; });
  if (key.empty() || !printable) {
    fail_usage("{}: a key consists of visible ASCII characters without blanks", option);
  }
}

// One key per line; empty lines and those that begin with # count for nothing.
std::vector<std::string> read_keys(const std::string& path) {
  constexpr uint64_t kMostBytes = 1 << 20;
  const std::string text = read_stream(path, kMostBytes);
  std::vector<std::string> keys;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    std::string line = text.substr(at, end - at);
    if (line.ends_with('\r')) line.pop_back();
    at = end + 1;
    if (line.empty() || line.starts_with('#')) continue;
    check_key(line, "--api-key-file");
    keys.push_back(line);
  }
  if (keys.empty()) fail_input("{}: there is no key in it", path);
  return keys;
}

std::string parse_origin(const std::string& value) {
  const size_t scheme = value.find("://");
  if (value == "*") return value;
  if (scheme == std::string::npos || scheme == 0 ||
      value.find_first_of("/ ", scheme + 3) != std::string::npos) {
    fail_usage("--cors: '{}' is no origin, such as https://chat.example:8443, nor *", value);
  }
  return value;
}

std::string not_empty(const std::string& value, const char* option) {
  if (value.empty()) fail_usage("{}: the name is empty", option);
  return value;
}

void add_access(OptionSet& set, ServeOptions* o) {
  set.group("Access");
  set.value("--host", "ADDRESS", "Address to listen on (default: 127.0.0.1, this machine only)",
            [o](const std::string& value) { o->host = not_empty(value, "--host"); });
  set.value("--port", "N", "Port (default: 8080); 0 takes a free one and says which",
            [o](const std::string& value) {
              o->port = static_cast<uint16_t>(parse_integer(value, "--port", 0, kMostPort));
            });
  set.repeated("--api-key", "KEY",
               "Ask for this key (Authorization: Bearer KEY); repeatable. Others can see it in the "
               "list of processes: better a file",
               [o](const std::string& value) {
                 check_key(value, "--api-key");
                 o->api_keys.push_back(value);
               });
  set.value("--api-key-file", "FILE", "The same with the keys in a file, one per line",
            [o](const std::string& value) {
              for (std::string& key : read_keys(value)) o->api_keys.push_back(std::move(key));
            });
  set.repeated("--cors", "ORIGIN",
               "Let pages of this origin call (https://chat.example), or of any (*); repeatable",
               [o](const std::string& value) { o->origins.push_back(parse_origin(value)); });
  set.repeated(
      "--alias", "NAME",
      "Another name of the model, besides its folder's and deepseek-reasoner; repeatable",
      [o](const std::string& value) { o->aliases.push_back(not_empty(value, "--alias")); });
}

void add_limits(OptionSet& set, ServeOptions* o) {
  set.group("Requests");
  set.value("--max-sequences", "N",
            "Answers worked on at once, which share every read (default: 8)",
            [o](const std::string& value) {
              o->max_sequences = parse_integer(value, "--max-sequences", 1, kMostParallel);
            });
  set.value(
      "--queue", "N", "Answers that may wait beyond them; then it is 429 (default: 64)",
      [o](const std::string& value) { o->queue = parse_integer(value, "--queue", 0, kMostQueue); });
  set.value("--max-connections", "N", "Connections at once; then it is 503 (default: 256)",
            [o](const std::string& value) {
              o->connections = parse_integer(value, "--max-connections", 1, kMostConnections);
            });
  set.value("--max-body", "SIZE", "Largest body of a request (default: 8M)",
            [o](const std::string& value) {
              constexpr uint64_t kLeast = 1024;
              constexpr uint64_t kMost = uint64_t{1} << 30;
              o->body_bytes = parse_size(value, "--max-body");
              if (o->body_bytes < kLeast || o->body_bytes > kMost) {
                fail_usage("--max-body: {} is not between 1K and 1G", value);
              }
            });
  set.value("-n,--max-tokens", "N",
            "Most tokens of an answer where the request does not say (default: what the context "
            "takes)",
            [o](const std::string& value) {
              o->max_tokens = parse_integer(value, "-n (--max-tokens)", 1, kMostTokens);
            });
  add_chat_template(set, &o->model);
  set.value("--drain", "SECONDS", "How long requests may go on after a termination (default: 30)",
            [o](const std::string& value) { o->drain_seconds = parse_seconds(value, "--drain"); });
  set.value("--access-log", "FILE", "A JSON line per request; - is standard error", &o->access_log);
  set.flag("--log-prompts", "Requests' bodies in it too", &o->log_prompts);
  set.group("");
}

}  // namespace

FinishCommand add_serve_options(OptionSet& set) {
  auto options = std::make_shared<ServeOptions>();
  ServeOptions* o = options.get();
  add_output(set, &o->output, "One JSON line when it listens: {url, port}");
  add_access(set, o);
  add_limits(set, o);
  add_speculation(set, &o->model);
  add_model(set, &o->model, kContextHelp);
  return [options] {
    if (options->log_prompts && options->access_log.empty()) {
      fail_usage("--log-prompts: there is no --access-log");
    }
    return *options;
  };
}

}  // namespace fathom::cli
