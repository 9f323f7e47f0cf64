// A client that can misbehave: raw bytes out, answers in.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/socket.h"

namespace fathom::server {

// Generous: only a hang meets it.
constexpr auto kClientPatience = std::chrono::seconds(60);

struct Answer {
  int status = 0;                              // 0: the server closed without one
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;                            // chunks joined
  bool whole = false;
  nlohmann::json json() const { return nlohmann::json::parse(body); }
  std::string header(const std::string& name) const {
    const auto at = headers.find(name);
    return at == headers.end() ? "" : at->second;
  }
};

class Client {
 public:
  explicit Client(uint16_t port)
      : socket_(connect_to("127.0.0.1", port, SocketClock::now() + kClientPatience)) {}

  bool send(std::string_view bytes) {
    return socket_.write(bytes, SocketClock::now() + kClientPatience) == Socket::Result::ok;
  }
  // Sends a request; `head` holds further header lines, each with its line end.
  bool request(const std::string& method, const std::string& path, const std::string& body = "",
               const std::string& head = "") {
    return send(method + " " + path + " HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: " +
                std::to_string(body.size()) + "\r\n" + head + "\r\n" + body);
  }

  // Takes what is there, waiting at most until then. False: the server has closed, or time is over.
  bool read_more(SocketClock::time_point until = SocketClock::now() + kClientPatience) {
    std::array<char, 16384> piece;
    size_t bytes = 0;
    const Socket::Result result = socket_.read(piece, &bytes, until);
    buffer_.append(piece.data(), bytes);
    return result == Socket::Result::ok;
  }

  Answer read_answer() {
    Answer answer;
    size_t end = std::string::npos;
    while ((end = buffer_.find("\r\n\r\n")) == std::string::npos) {
      if (!read_more()) return answer;
    }
    const std::string head = buffer_.substr(0, end + 2);
    buffer_.erase(0, end + 4);
    answer.status = std::stoi(head.substr(9, 3));
    for (size_t at = head.find("\r\n") + 2; at < head.size();) {
      const size_t line_end = head.find("\r\n", at);
      const size_t colon = head.find(':', at);
      std::string name = head.substr(at, colon - at);
      for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
      answer.headers[name] = head.substr(colon + 2, line_end - colon - 2);
      at = line_end + 2;
    }
    if (answer.status == 100) return read_answer();
    if (answer.header("transfer-encoding") == "chunked") {
      read_chunks(&answer);
    } else if (const std::string length = answer.header("content-length"); !length.empty()) {
      const size_t bytes = std::stoul(length);
      while (buffer_.size() < bytes && read_more()) {
      }
      answer.whole = buffer_.size() >= bytes;
      answer.body = buffer_.substr(0, bytes);
      buffer_.erase(0, bytes);
    } else {
      if (answer.status != 204) {
        while (read_more()) {
        }
        answer.body = std::exchange(buffer_, "");
      }
      answer.whole = true;
    }
    return answer;
  }

  // True where the server closes (within the patience) without sending anything more.
  bool closed() {
    buffer_.clear();
    while (read_more()) {
    }
    return buffer_.empty() &&
           socket_.wait_gone(SocketClock::now() + kClientPatience) == Socket::Result::closed;
  }
  std::string& buffer() { return buffer_; }
  void close() { socket_.close(); }

 private:
  void read_chunks(Answer* answer) {
    while (true) {
      size_t line = std::string::npos;
      while ((line = buffer_.find("\r\n")) == std::string::npos) {
        if (!read_more()) return;
      }
      const size_t bytes = std::stoul(buffer_.substr(0, line), nullptr, 16);
      while (buffer_.size() < line + 2 + bytes + 2) {
        if (!read_more()) return;
      }
      answer->body += buffer_.substr(line + 2, bytes);
      buffer_.erase(0, line + 2 + bytes + 2);
      if (bytes == 0) {
        answer->whole = true;
        return;
      }
    }
  }

  Socket socket_;
  std::string buffer_;
};

// One request on a connection of its own.
inline Answer ask(uint16_t port, const std::string& method, const std::string& path,
                  const std::string& body = "", const std::string& head = "") {
  Client client(port);
  client.request(method, path, body, head);
  return client.read_answer();
}

// The events of a stream. Strict: anything but "data: JSON", "data: [DONE]" and comments fails.
struct Events {
  std::vector<nlohmann::json> chunks;
  bool done = false;
  int comments = 0;
};
inline Events events_of(const std::string& body) {
  Events events;
  for (size_t at = 0; at < body.size();) {
    const size_t end = body.find("\n\n", at);
    EXPECT_NE(end, std::string::npos) << body.substr(at);
    if (end == std::string::npos) break;
    const std::string event = body.substr(at, end - at);
    at = end + 2;
    EXPECT_EQ(event.find('\n'), std::string::npos) << event;
    EXPECT_FALSE(events.done) << event;
    if (event.starts_with(':')) {
      ++events.comments;
    } else if (event == "data: [DONE]") {
      events.done = true;
    } else {
      EXPECT_TRUE(event.starts_with("data: ")) << event;
      events.chunks.push_back(nlohmann::json::parse(event.substr(6)));
    }
  }
  return events;
}

// What the deltas of a choice add up to.
struct Joined {
  std::string reasoning;
  std::string content;
  std::string text;  // of /v1/completions
  std::string finish_reason;
  int roles = 0;
};
inline Joined join(const Events& events, int64_t index = 0) {
  Joined joined;
  for (const nlohmann::json& chunk : events.chunks) {
    for (const nlohmann::json& choice : chunk["choices"]) {
      if (choice["index"] != index) continue;
      EXPECT_EQ(joined.finish_reason, "") << "a chunk after the last one: " << chunk;
      if (choice.contains("text")) joined.text += choice["text"].get<std::string>();
      const nlohmann::json& delta = choice.value("delta", nlohmann::json::object());
      EXPECT_FALSE(delta.contains("content") && delta.contains("reasoning_content")) << delta;
      if (delta.contains("role")) ++joined.roles;
      if (delta.contains("reasoning_content")) {
        EXPECT_EQ(joined.content, "") << "a thought after the answer has begun";
        joined.reasoning += delta["reasoning_content"].get<std::string>();
      }
      if (delta.contains("content")) joined.content += delta["content"].get<std::string>();
      if (choice["finish_reason"].is_string()) {
        joined.finish_reason = choice["finish_reason"].get<std::string>();
      } else {
        EXPECT_TRUE(choice["finish_reason"].is_null()) << choice;
      }
    }
  }
  return joined;
}

}  // namespace fathom::server
