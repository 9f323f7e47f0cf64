#include "base/socket.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "base/error.h"

namespace fathom {
namespace {

constexpr int kBacklog = 512;
// A peer that has vanished without a word is noticed after about a minute.
constexpr int kIdleSeconds = 30;
constexpr int kProbeSeconds = 10;
constexpr int kProbes = 3;
constexpr int kUnacknowledgedMilliseconds = 60'000;

int milliseconds_until(SocketClock::time_point until) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - SocketClock::now());
  return static_cast<int>(std::clamp<int64_t>(left.count(), 0, 3'600'000));
}

// Waits for `events` of a socket or for the event. The socket's revents, 0 after time is over, -1
// where the event came.
int wait_for(int descriptor, short events, SocketClock::time_point until, const WakeEvent* event) {
  while (true) {
    pollfd fds[2] = {{descriptor, events, 0},
                     {event != nullptr ? event->descriptor() : -1, POLLIN, 0}};
    const int ready = poll(fds, 2, milliseconds_until(until));
    if (ready < 0 && errno != EINTR) return POLLERR;
    if (ready > 0) {
      if (fds[0].revents != 0) return fds[0].revents;
      if (fds[1].revents != 0) return -1;
    }
    if (SocketClock::now() >= until) return 0;
  }
}

void set_option(int descriptor, int level, int name, int value) {
  setsockopt(descriptor, level, name, &value, sizeof value);
}

struct FreeAddresses {
  void operator()(addrinfo* addresses) const { freeaddrinfo(addresses); }
};

std::unique_ptr<addrinfo, FreeAddresses> addresses_of(const std::string& host, uint16_t port,
                                                      int flags) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int result = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (result != 0) fail(ErrorKind::io, "address {}: {}", host, gai_strerror(result));
  return std::unique_ptr<addrinfo, FreeAddresses>(found);
}

bool is_loopback(const sockaddr* address) {
  if (address->sa_family == AF_INET) {
    const auto* v4 = reinterpret_cast<const sockaddr_in*>(address);
    return (ntohl(v4->sin_addr.s_addr) >> 24) == 127;
  }
  const auto* v6 = reinterpret_cast<const sockaddr_in6*>(address);
  return address->sa_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr);
}

uint16_t port_of(const sockaddr_storage& address) {
  return ntohs(address.ss_family == AF_INET6
                   ? reinterpret_cast<const sockaddr_in6&>(address).sin6_port
                   : reinterpret_cast<const sockaddr_in&>(address).sin_port);
}

}  // namespace

WakeEvent::WakeEvent() : descriptor_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  if (descriptor_ < 0) fail(ErrorKind::io, "eventfd: {}", std::strerror(errno));
}
WakeEvent::~WakeEvent() { ::close(descriptor_); }

void WakeEvent::wake() const noexcept {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(descriptor_, &one, sizeof one);
}

void WakeEvent::clear() const noexcept {
  uint64_t count = 0;
  [[maybe_unused]] const ssize_t taken = ::read(descriptor_, &count, sizeof count);
}

Socket::~Socket() { close(); }
Socket::Socket(Socket&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
Socket& Socket::operator=(Socket&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

void Socket::close() {
  if (descriptor_ >= 0) ::close(std::exchange(descriptor_, -1));
}

void Socket::shut() const {
  if (descriptor_ >= 0) shutdown(descriptor_, SHUT_RDWR);
}

Socket::Result Socket::read(std::span<char> into, size_t* bytes, SocketClock::time_point until,
                            const WakeEvent* event) {
  *bytes = 0;
  while (true) {
    const ssize_t got = recv(descriptor_, into.data(), into.size(), MSG_DONTWAIT);
    if (got > 0) {
      *bytes = static_cast<size_t>(got);
      return Result::ok;
    }
    if (got == 0) return Result::closed;
    if (errno == EINTR) continue;
    if (errno != EAGAIN && errno != EWOULDBLOCK) return Result::closed;
    const int events = wait_for(descriptor_, POLLIN, until, event);
    if (events == 0) return Result::timeout;
    if (events < 0) return Result::woken;
  }
}

Socket::Result Socket::write(std::string_view bytes, SocketClock::time_point until) {
  while (!bytes.empty()) {
    const ssize_t sent = send(descriptor_, bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent >= 0) {
      bytes.remove_prefix(static_cast<size_t>(sent));
      continue;
    }
    if (errno == EINTR) continue;
    if (errno != EAGAIN && errno != EWOULDBLOCK) return Result::closed;
    const int events = wait_for(descriptor_, POLLOUT, until, nullptr);
    if (events == 0) return Result::timeout;
    if ((events & (POLLERR | POLLHUP)) != 0) return Result::closed;
  }
  return Result::ok;
}

Socket::Result Socket::wait_gone(SocketClock::time_point until, const WakeEvent* event) const {
  const int events = wait_for(descriptor_, POLLRDHUP, until, event);
  if (events == 0) return Result::timeout;
  return events < 0 ? Result::woken : Result::closed;
}

void Socket::finish(size_t most, SocketClock::time_point until) {
  if (!open()) return;
  shutdown(descriptor_, SHUT_WR);
  char scratch[4096];
  size_t bytes = 0;
  for (size_t taken = 0; taken < most; taken += bytes) {
    if (read(scratch, &bytes, until) != Result::ok) break;
  }
}

std::string Socket::peer() const {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  if (getpeername(descriptor_, reinterpret_cast<sockaddr*>(&address), &length) != 0) return "";
  char host[NI_MAXHOST];
  if (getnameinfo(reinterpret_cast<const sockaddr*>(&address), length, host, sizeof host, nullptr,
                  0, NI_NUMERICHOST) != 0) {
    return "";
  }
  const bool v6 = address.ss_family == AF_INET6;
  return fmt::format("{}{}{}:{}", v6 ? "[" : "", host, v6 ? "]" : "", port_of(address));
}

Socket connect_to(const std::string& host, uint16_t port, SocketClock::time_point until) {
  const auto addresses = addresses_of(host, port, 0);
  int problem = ECONNREFUSED;
  for (const addrinfo* at = addresses.get(); at != nullptr; at = at->ai_next) {
    const int descriptor =
        ::socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, at->ai_protocol);
    if (descriptor < 0) {
      problem = errno;
      continue;
    }
    Socket socket(descriptor);
    if (connect(descriptor, at->ai_addr, at->ai_addrlen) != 0) {
      problem = errno;
      if (problem != EINPROGRESS) continue;
      problem = ETIMEDOUT;
      if (wait_for(descriptor, POLLOUT, until, nullptr) == 0) continue;
      socklen_t length = sizeof problem;
      getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &problem, &length);
      if (problem != 0) continue;
    }
    set_option(descriptor, IPPROTO_TCP, TCP_NODELAY, 1);
    return socket;
  }
  fail(ErrorKind::io, "{} port {}: {}", host, port, std::strerror(problem));
}

Listener::Listener(const std::string& host, uint16_t port) {
  const auto addresses = addresses_of(host, port, AI_PASSIVE);
  int problem = 0;
  for (const addrinfo* at = addresses.get(); at != nullptr; at = at->ai_next) {
    const int descriptor =
        ::socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, at->ai_protocol);
    if (descriptor < 0) {
      problem = errno;
      continue;
    }
    set_option(descriptor, SOL_SOCKET, SO_REUSEADDR, 1);
    sockaddr_storage bound{};
    socklen_t length = sizeof bound;
    if (bind(descriptor, at->ai_addr, at->ai_addrlen) != 0 || listen(descriptor, kBacklog) != 0 ||
        getsockname(descriptor, reinterpret_cast<sockaddr*>(&bound), &length) != 0) {
      problem = errno;
      ::close(descriptor);
      continue;
    }
    descriptor_ = descriptor;
    port_ = port_of(bound);
    loopback_ = is_loopback(at->ai_addr);
    return;
  }
  fail(ErrorKind::io, "{} port {}: cannot listen: {}", host, port, std::strerror(problem));
}

Listener::~Listener() { close(); }

void Listener::close() {
  if (descriptor_ >= 0) ::close(std::exchange(descriptor_, -1));
}

std::optional<Socket> Listener::accept(const WakeEvent& event) {
  constexpr auto kForever = std::chrono::hours(1);
  constexpr auto kBreath = std::chrono::milliseconds(50);
  const int events = wait_for(descriptor_, POLLIN, SocketClock::now() + kForever, &event);
  if (events <= 0) return std::nullopt;
  const int descriptor = accept4(descriptor_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (descriptor < 0) {
    // Out of descriptors or memory: the waiting connection stays in the queue meanwhile.
    if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
      pollfd none{event.descriptor(), POLLIN, 0};
      poll(&none, 1, static_cast<int>(kBreath.count()));
    }
    return std::nullopt;
  }
  set_option(descriptor, IPPROTO_TCP, TCP_NODELAY, 1);
  set_option(descriptor, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(descriptor, IPPROTO_TCP, TCP_KEEPIDLE, kIdleSeconds);
  set_option(descriptor, IPPROTO_TCP, TCP_KEEPINTVL, kProbeSeconds);
  set_option(descriptor, IPPROTO_TCP, TCP_KEEPCNT, kProbes);
  set_option(descriptor, IPPROTO_TCP, TCP_USER_TIMEOUT, kUnacknowledgedMilliseconds);
  return Socket(descriptor);
}

}  // namespace fathom
