#include "server/server.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include "base/log.h"
#include "server/api.h"
#include "server/openai/api_error.h"

namespace fathom::server {
namespace {

constexpr auto kDrainLook = std::chrono::milliseconds(20);
// For the end of streams that are cancelled.
constexpr auto kLastWords = std::chrono::seconds(3);

// What one connection too many is told, into its empty send buffer and without waiting.
std::string full_answer() {
  const std::string body =
      ApiError(503, "too many connections", {{}, "too_many_connections"}).body();
  return fmt::format(
      "HTTP/1.1 503 {}\r\nContent-Type: application/json\r\nRetry-After: 1\r\n"
      "Connection: close\r\nContent-Length: {}\r\n\r\n{}",
      status_text(503), body.size(), body);
}

}  // namespace

Server::Server(ServerOptions options, std::function<Model()> load)
    : options_(std::move(options)),
      listener_(options_.host, options_.port),
      log_(options_.access_log),
      room_(options_.limits.bodies_bytes),
      runner_(std::move(load), options_.runner, metrics_),
      api_(std::make_unique<Api>(
          ApiContext{options_, listener_.loopback(), draining_, runner_, metrics_, log_})),
      acceptor_([this] { accept_loop(); }) {}

Server::~Server() { drain(); }

void Server::accept_loop() {
  while (!draining_.load()) {
    std::optional<Socket> socket = listener_.accept(stop_accepting_);
    reap();
    if (socket) add_connection(std::move(*socket));
  }
  listener_.close();
}

void Server::add_connection(Socket socket) {
  if (connections_.size() >= static_cast<size_t>(options_.connections)) {
    metrics_.refused_connection();
    socket.write(full_answer(), SocketClock::now());
    return;
  }
  try {
    auto connection = std::make_unique<Connection>();
    connection->socket = std::move(socket);
    connection->wake = std::make_shared<WakeEvent>();
    connections_.push_back(std::move(connection));
    Connection& added = *connections_.back();
    try {
      added.thread = std::thread([this, &added] { run_connection(added); });
    } catch (...) {
      connections_.pop_back();
      throw;
    }
  } catch (const std::exception& error) {
    // No thread, no memory or no descriptor: this client goes, the others stay.
    log::warning("a connection is refused: {}", error.what());
    metrics_.refused_connection();
  }
}

void Server::run_connection(Connection& connection) {
  metrics_.connection_opened();
  try {
    const std::string peer = connection.socket.peer();
    const ConnectionContext context = {
        options_.limits, room_, draining_,
        [this, &peer](HttpRequest& request, Responder& responder, const HttpError* problem) {
          api_->handle(request, responder, {peer, problem});
        }};
    serve_connection(connection.socket, connection.wake, context);
  } catch (const std::exception& error) {
    log::warning("a connection is given up: {}", error.what());
  }
  // Closed where it is joined: until then its descriptor belongs to nobody else.
  connection.socket.shut();
  metrics_.connection_closed();
  connection.done.store(true);
}

void Server::reap() {
  for (const auto& connection : connections_) {
    if (connection->done.load() && connection->thread.joinable()) connection->thread.join();
  }
  std::erase_if(connections_,
                [](const auto& connection) { return !connection->thread.joinable(); });
}

void Server::drain(const std::function<bool()>& hurry) {
  draining_.store(true);
  stop_accepting_.wake();
  if (acceptor_.joinable()) acceptor_.join();
  const auto until = SocketClock::now() + options_.drain;
  bool cancelled = false;
  auto cut_at = until;
  while (true) {
    for (const auto& connection : connections_) connection->wake->wake();
    reap();
    if (connections_.empty()) break;
    if (!cancelled && (SocketClock::now() >= until || (hurry && hurry()))) {
      cancelled = true;
      runner_.cancel_all();
      cut_at = SocketClock::now() + kLastWords;
    }
    if (cancelled && SocketClock::now() >= cut_at) {
      for (const auto& connection : connections_) connection->socket.shut();
    }
    std::this_thread::sleep_for(kDrainLook);
  }
  runner_.cancel_all();
}

}  // namespace fathom::server
