// One connection: reads its requests within their limits and writes answers.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/socket.h"
#include "server/http_message.h"

namespace fathom::server {

// Room for large bodies, shared by all connections: who finds none waits.
class BodyRoom {
 public:
  explicit BodyRoom(size_t bytes) : free_(bytes) {}
  bool take(size_t bytes);
  void give(size_t bytes);

 private:
  std::mutex mutex_;
  size_t free_;
};

// One answer to one request.
class Responder {
 public:
  Responder(Socket& socket, const HttpLimits& limits, std::shared_ptr<WakeEvent> wake)
      : socket_(socket), limits_(limits), wake_(std::move(wake)) {}

  // How the request wants to be answered; before anything is sent.
  void answer_to(const HttpRequest& request);
  void close_after() { keep_alive_ = false; }
  void add_header(std::string name, std::string value);

  void send(int status, std::string_view type, std::string_view body);
  // A body whose length is not known yet. All of these return whether the client takes it.
  bool begin_stream(std::string_view type);
  bool write(std::string_view text);
  bool end_stream();

  // The handler needs the request's body no longer, so that others may have its memory.
  void body_is_read() {
    if (body_is_read_) body_is_read_();
  }
  void when_body_is_read(std::function<void()> call) { body_is_read_ = std::move(call); }

  bool started() const { return status_ != 0; }
  bool keeps_alive() const { return keep_alive_ && !broken_ && !streaming_; }
  bool broken() const { return broken_; }
  int status() const { return status_; }  // 0: nothing was sent
  uint64_t bytes() const { return bytes_; }

  // Waits for the event, the end of time, or the client's leaving.
  Socket::Result wait(SocketClock::time_point until) const {
    return socket_.wait_gone(until, wake_.get());
  }
  // The same whatever the event says.
  Socket::Result pause(SocketClock::time_point until) const { return socket_.wait_gone(until); }
  const std::shared_ptr<WakeEvent>& wake_event() const { return wake_; }
  const HttpLimits& limits() const { return limits_; }

 private:
  std::string head(int status, std::string_view type);
  bool put(std::string_view bytes);

  Socket& socket_;
  const HttpLimits& limits_;
  std::shared_ptr<WakeEvent> wake_;
  std::function<void()> body_is_read_;
  std::vector<std::pair<std::string, std::string>> headers_;
  bool http_1_0_ = false;
  bool keep_alive_ = false;
  bool head_only_ = false;
  bool streaming_ = false;
  bool broken_ = false;
  int status_ = 0;
  uint64_t bytes_ = 0;
};

struct ConnectionContext {
  const HttpLimits& limits;
  BodyRoom& room;
  const std::atomic<bool>& draining;  // no further request is read
  // Answers a request; `problem` says why one could not be read (its body may be missing).
  std::function<void(HttpRequest& request, Responder& responder, const HttpError* problem)> handle;
};

// Until one side has had enough. `wake` belongs to this connection.
void serve_connection(Socket& socket, const std::shared_ptr<WakeEvent>& wake,
                      const ConnectionContext& context);

}  // namespace fathom::server
