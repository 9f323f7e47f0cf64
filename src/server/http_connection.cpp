#include "server/http_connection.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <thread>

#include "server/http_parser.h"

namespace fathom::server {
namespace {

using Clock = SocketClock;

constexpr size_t kReadBytes = 16 * 1024;
// What a client still sends after it was refused is read away within these.
constexpr size_t kMostLeftover = 1 << 20;
constexpr auto kLeftoverTime = std::chrono::seconds(2);
constexpr auto kRoomRetry = std::chrono::milliseconds(20);

// Reads one connection's requests one after another.
class RequestReader {
 public:
  RequestReader(Socket& socket, const std::shared_ptr<WakeEvent>& wake,
                const ConnectionContext& context)
      : socket_(socket), wake_(wake), context_(context) {}

  // False where there is none: the client has left, or nothing is wanted any more. Throws
  // HttpError.
  bool read(HttpParser& parser);
  void release_room();

 private:
  Socket::Result more(Clock::time_point until, const WakeEvent* event);
  bool read_header(HttpParser& parser);
  void read_body(HttpParser& parser);
  void take_room(size_t bytes, Clock::time_point until);

  Socket& socket_;
  const std::shared_ptr<WakeEvent>& wake_;
  const ConnectionContext& context_;
  std::string buffer_;  // read and not used yet
  size_t room_taken_ = 0;
};

Socket::Result RequestReader::more(Clock::time_point until, const WakeEvent* event) {
  std::array<char, kReadBytes> piece;
  size_t bytes = 0;
  const Socket::Result result = socket_.read(piece, &bytes, until, event);
  buffer_.append(piece.data(), bytes);
  return result;
}

bool RequestReader::read_header(HttpParser& parser) {
  auto until = Clock::now() + context_.limits.idle;
  bool started = false;
  while (true) {
    if (!buffer_.empty()) buffer_.erase(0, parser.feed(buffer_));
    if (parser.header_done()) return true;
    if (!started && parser.started()) {
      started = true;
      until = Clock::now() + context_.limits.header;
    }
    if (!started && context_.draining.load()) return false;
    switch (more(until, started ? nullptr : wake_.get())) {
      case Socket::Result::ok:
        break;
      case Socket::Result::woken:  // to see that it is draining, or late by an answer's event
        wake_->clear();
        break;
      case Socket::Result::closed:
        return false;
      case Socket::Result::timeout:
        if (started) throw HttpError(408, "the request did not come in time");
        return false;
    }
  }
}

void RequestReader::take_room(size_t bytes, Clock::time_point until) {
  while (!context_.room.take(bytes)) {
    if (Clock::now() >= until) throw HttpError(503, "too many large requests at once");
    std::this_thread::sleep_for(kRoomRetry);
  }
  room_taken_ += bytes;
}

void RequestReader::release_room() {
  if (room_taken_ > 0) context_.room.give(std::exchange(room_taken_, 0));
}

void RequestReader::read_body(HttpParser& parser) {
  const HttpLimits& limits = context_.limits;
  const auto until = Clock::now() + limits.body;
  const uint64_t length = parser.body_length().value_or(0);
  if (length > limits.body_bytes) {
    throw HttpError(413, fmt::format("the body has more than {} bytes", limits.body_bytes));
  }
  if (length > limits.large_body_bytes) take_room(length, until);
  if (parser.request().expects_continue && buffer_.empty() && !parser.done()) {
    socket_.write("HTTP/1.1 100 Continue\r\n\r\n", Clock::now() + limits.write);
  }
  size_t taken = 0;
  while (!parser.done()) {
    if (!buffer_.empty()) {
      const size_t used = parser.feed(buffer_);
      taken += used;
      buffer_.erase(0, used);
      // One without a length takes the most that it may have as soon as it is large.
      if (room_taken_ == 0 && length == 0 && taken > limits.large_body_bytes) {
        take_room(limits.body_bytes, until);
      }
      if (parser.done()) return;
    }
    const Socket::Result result = more(until, nullptr);
    if (result == Socket::Result::timeout) throw HttpError(408, "the body did not come in time");
    if (result != Socket::Result::ok) throw HttpError(400, "the body ends before its end");
  }
}

bool RequestReader::read(HttpParser& parser) {
  if (!read_header(parser)) return false;
  if (!parser.done()) read_body(parser);
  return true;
}

}  // namespace

bool BodyRoom::take(size_t bytes) {
  const std::lock_guard lock(mutex_);
  if (free_ < bytes) return false;
  free_ -= bytes;
  return true;
}

void BodyRoom::give(size_t bytes) {
  const std::lock_guard lock(mutex_);
  free_ += bytes;
}

void Responder::answer_to(const HttpRequest& request) {
  http_1_0_ = request.http_1_0;
  keep_alive_ = request.keep_alive;
  head_only_ = request.method == "HEAD";
}

void Responder::add_header(std::string name, std::string value) {
  headers_.emplace_back(std::move(name), std::move(value));
}

std::string Responder::head(int status, std::string_view type) {
  status_ = status;
  std::string head = fmt::format("HTTP/1.1 {} {}\r\n", status, status_text(status));
  if (!type.empty()) head += fmt::format("Content-Type: {}\r\n", type);
  for (const auto& [name, value] : headers_) head += fmt::format("{}: {}\r\n", name, value);
  if (!keep_alive_) {
    head += "Connection: close\r\n";
  } else if (http_1_0_) {
    head += "Connection: keep-alive\r\n";
  }
  return head;
}

bool Responder::put(std::string_view bytes) {
  if (broken_) return false;
  bytes_ += bytes.size();
  broken_ = socket_.write(bytes, Clock::now() + limits_.write) != Socket::Result::ok;
  return !broken_;
}

void Responder::send(int status, std::string_view type, std::string_view body) {
  std::string text = head(status, type);
  if (status != 204) text += fmt::format("Content-Length: {}\r\n", body.size());
  text += "\r\n";
  if (!head_only_) text += body;
  put(text);
}

bool Responder::begin_stream(std::string_view type) {
  if (http_1_0_) keep_alive_ = false;
  std::string text = head(200, type);
  text += "Cache-Control: no-store\r\nX-Accel-Buffering: no\r\n";
  text += http_1_0_ ? "\r\n" : "Transfer-Encoding: chunked\r\n\r\n";
  streaming_ = true;
  return put(text);
}

bool Responder::write(std::string_view text) {
  if (text.empty() || head_only_) return !broken_;
  return http_1_0_ ? put(text) : put(fmt::format("{:x}\r\n{}\r\n", text.size(), text));
}

bool Responder::end_stream() {
  streaming_ = false;
  return http_1_0_ ? !broken_ : put("0\r\n\r\n");
}

void serve_connection(Socket& socket, const std::shared_ptr<WakeEvent>& wake,
                      const ConnectionContext& context) {
  RequestReader reader(socket, wake, context);
  bool go_on = true;
  while (go_on && !context.draining.load()) {
    HttpParser parser(context.limits);
    Responder responder(socket, context.limits, wake);
    try {
      if (!reader.read(parser)) break;
      responder.answer_to(parser.request());
      if (context.draining.load()) responder.close_after();
      responder.when_body_is_read([&reader] { reader.release_room(); });
      context.handle(parser.request(), responder, nullptr);
      go_on = responder.keeps_alive();
    } catch (const HttpError& error) {
      responder.close_after();
      context.handle(parser.request(), responder, &error);
      socket.finish(kMostLeftover, Clock::now() + kLeftoverTime);
      go_on = false;
    }
    reader.release_room();
  }
}

}  // namespace fathom::server
