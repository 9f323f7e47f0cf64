// TCP as the server needs it: every wait has an end, and may be ended from another thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace fathom {

using SocketClock = std::chrono::steady_clock;

// Wakes a thread that waits for a socket. Any thread (and a signal handler) may call wake().
class WakeEvent {
 public:
  WakeEvent();
  ~WakeEvent();
  WakeEvent(const WakeEvent&) = delete;
  WakeEvent& operator=(const WakeEvent&) = delete;

  void wake() const noexcept;
  void clear() const noexcept;  // wake() has been seen
  int descriptor() const { return descriptor_; }

 private:
  int descriptor_;
};

// A connected socket. Used by one thread.
class Socket {
 public:
  Socket() = default;
  explicit Socket(int descriptor) : descriptor_(descriptor) {}
  ~Socket();
  Socket(Socket&& other) noexcept;
  Socket& operator=(Socket&& other) noexcept;

  bool open() const { return descriptor_ >= 0; }
  void close();
  // Both sides are told that it is over; any thread may do so while the socket is open.
  void shut() const;

  enum class Result { ok, closed, timeout, woken };
  // Waits for bytes and takes what is there, at the most `into`. `woken`: the event came first.
  Result read(std::span<char> into, size_t* bytes, SocketClock::time_point until,
              const WakeEvent* event = nullptr);
  // All of it. `until` is for the whole.
  Result write(std::string_view bytes, SocketClock::time_point until);
  // Waits until the other side has gone (`closed`: it has closed, or only its sending side), the
  // event comes, or time is over.
  Result wait_gone(SocketClock::time_point until, const WakeEvent* event = nullptr) const;
  // Says that nothing more will be sent, and reads away what is still coming (at most `most` bytes,
  // until then): an answer sent before a request was read in full would else be lost.
  void finish(size_t most, SocketClock::time_point until);

  std::string peer() const;  // "127.0.0.1:40000"; "" where unknown

 private:
  int descriptor_ = -1;
};

// Connects to an address such as "127.0.0.1". Error(io) where nobody answers in time.
Socket connect_to(const std::string& host, uint16_t port, SocketClock::time_point until);

class Listener {
 public:
  // Error(io) naming the address and why it cannot be had. Port 0: any free one.
  Listener(const std::string& host, uint16_t port);
  ~Listener();
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  uint16_t port() const { return port_; }
  bool loopback() const { return loopback_; }
  // Waits for a connection; none where the event comes first. Where the system has no room for
  // another one it is waited for a moment, and none comes back too.
  std::optional<Socket> accept(const WakeEvent& event);
  // Nobody can connect any more.
  void close();

 private:
  int descriptor_ = -1;
  uint16_t port_ = 0;
  bool loopback_ = false;
};

}  // namespace fathom
