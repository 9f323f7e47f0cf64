// The HTTP server around one model.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/socket.h"
#include "fathom/model.h"
#include "server/access_log.h"
#include "server/http_connection.h"
#include "server/http_message.h"
#include "server/metrics.h"
#include "server/model_runner.h"

namespace fathom::server {

struct ServerOptions {
  std::string host = "127.0.0.1";
  uint16_t port = 8080;               // 0: any free one
  std::vector<std::string> api_keys;  // empty: everybody may
  std::vector<std::string> aliases;   // further names of the model
  std::vector<std::string> origins;   // whose pages may call; "*": all
  int64_t connections = 256;
  int64_t max_tokens = 0;  // of requests that do not say; 0: what the context takes
  HttpLimits limits;
  RunnerOptions runner;
  std::chrono::milliseconds drain{30'000};
  std::string access_log;  // see AccessLog
  bool log_prompts = false;
};

class Api;

class Server {
 public:
  // Listens at once and answers /health while the model loads. Error(io) where the address cannot
  // be had.
  Server(ServerOptions options, std::function<Model()> load);
  ~Server();  // drains
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  uint16_t port() const { return listener_.port(); }
  bool loopback() const { return listener_.loopback(); }
  ModelRunner& runner() { return runner_; }

  // Takes no further requests and lets those that are there finish, within the limit; then ends
  // them. Returns when nothing is left. `hurry` is asked meanwhile: true ends them at once.
  void drain(const std::function<bool()>& hurry = {});

 private:
  struct Connection {
    Socket socket;
    std::shared_ptr<WakeEvent> wake;
    std::thread thread;
    std::atomic<bool> done{false};
  };

  void accept_loop();
  void add_connection(Socket socket);
  void run_connection(Connection& connection);
  void reap();

  const ServerOptions options_;
  Listener listener_;
  AccessLog log_;
  Metrics metrics_;
  BodyRoom room_;
  std::atomic<bool> draining_{false};
  ModelRunner runner_;
  std::unique_ptr<Api> api_;

  WakeEvent stop_accepting_;
  std::list<std::unique_ptr<Connection>> connections_;  // of the accepting thread, then of drain()
  std::thread acceptor_;
};

}  // namespace fathom::server
