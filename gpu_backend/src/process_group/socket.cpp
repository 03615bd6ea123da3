#include "socket.hpp"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <memory>
#include <thread>
#include <utility>

namespace ppsim::gpu_backend {
namespace {

struct FrameHeader {
  std::uint64_t length = 0;
  std::uint32_t epoch = 0;
  std::uint32_t kind = 0;
};

using Addresses = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

Expected<Addresses> addresses_of(const std::string& host, int port, int flags) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags;
  addrinfo* found = nullptr;
  const std::string service = std::to_string(port);
  const int failure = ::getaddrinfo(host.empty() ? nullptr : host.c_str(), service.c_str(), &hints, &found);
  if (failure != 0) return make_error(ErrorCode::io, "no host \"" + host + "\": " + ::gai_strerror(failure));
  return Addresses(found, &::freeaddrinfo);
}

std::string system_text() { return std::generic_category().message(errno); }

int milliseconds_until(Deadline deadline) {
  const auto left =
      std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, std::numeric_limits<int>::max()));
}

bool readable_until(const Socket& socket, Deadline deadline) {
  pollfd poll{socket.descriptor(), POLLIN, 0};
  int ready = 0;
  do {
    ready = ::poll(&poll, 1, milliseconds_until(deadline));
  } while (ready < 0 && errno == EINTR);
  return ready > 0;
}

bool send_all(const Socket& socket, const void* from, std::size_t size) {
  const char* at = static_cast<const char*>(from);
  while (size > 0) {
    const ssize_t sent = ::send(socket.descriptor(), at, size, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    at += sent;
    size -= static_cast<std::size_t>(sent);
  }
  return true;
}

bool receive_all(const Socket& socket, void* into, std::size_t size, const Deadline* deadline = nullptr) {
  char* at = static_cast<char*>(into);
  while (size > 0) {
    if (deadline != nullptr && !readable_until(socket, *deadline)) return false;
    const ssize_t got = ::recv(socket.descriptor(), at, size, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    at += got;
    size -= static_cast<std::size_t>(got);
  }
  return true;
}

std::optional<Frame> receive(const Socket& socket, std::uint64_t largest, const Deadline* deadline) {
  FrameHeader header;
  if (!receive_all(socket, &header, sizeof header, deadline)) return std::nullopt;
  if (header.length > largest || header.kind > static_cast<std::uint32_t>(FrameKind::bye))
    return std::nullopt;
  Frame frame{static_cast<FrameKind>(header.kind), header.epoch, std::string(header.length, '\0')};
  if (!receive_all(socket, frame.bytes.data(), frame.bytes.size(), deadline)) return std::nullopt;
  return frame;
}

void set_option(const Socket& socket, int level, int option, int value) {
  ::setsockopt(socket.descriptor(), level, option, &value, sizeof value);
}

/// Small messages go at once. A host that no longer answers, cut off or without power, closes no connection:
/// the kernel here gives up after kLostHost, whether data is in flight or not.
void configure(const Socket& socket) {
  constexpr int kProbes = 5;  // one each second, the last of them when the time is over
  constexpr int kSeconds = static_cast<int>(kLostHost.count());
  set_option(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  set_option(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(socket, IPPROTO_TCP, TCP_KEEPIDLE, kSeconds - kProbes);
  set_option(socket, IPPROTO_TCP, TCP_KEEPINTVL, 1);
  set_option(socket, IPPROTO_TCP, TCP_KEEPCNT, kProbes);
  set_option(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, kSeconds * 1000);
}

}  // namespace

Socket& Socket::operator=(Socket&& other) noexcept {
  if (this != &other) {
    close();
    descriptor_ = other.release();
  }
  return *this;
}

void Socket::close() {
  if (open()) ::close(release());
}

int Socket::release() { return std::exchange(descriptor_, -1); }

Expected<Socket> listen_at(const std::string& host, int port) {
  PPSIM_ASSIGN_OR_RETURN(const auto addresses, addresses_of(host, port, AI_PASSIVE));
  for (const addrinfo* a = addresses.get(); a != nullptr; a = a->ai_next) {
    Socket socket(::socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC, a->ai_protocol));
    const int on = 1;
    if (!socket.open()) continue;
    ::setsockopt(socket.descriptor(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (::bind(socket.descriptor(), a->ai_addr, a->ai_addrlen) != 0) continue;
    if (::listen(socket.descriptor(), SOMAXCONN) == 0) return socket;
  }
  return make_error(ErrorCode::io,
                    "cannot listen at " + host + ":" + std::to_string(port) + ": " + system_text());
}

int port_of(const Socket& listener) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  ::getsockname(listener.descriptor(), reinterpret_cast<sockaddr*>(&address), &size);
  if (address.ss_family == AF_INET6) return ntohs(reinterpret_cast<sockaddr_in6*>(&address)->sin6_port);
  return ntohs(reinterpret_cast<sockaddr_in*>(&address)->sin_port);
}

std::optional<Socket> accept_until(const Socket& listener, Deadline deadline) {
  while (readable_until(listener, deadline)) {
    Socket socket(::accept4(listener.descriptor(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!socket.open()) continue;  // it went away again
    configure(socket);
    return socket;
  }
  return std::nullopt;
}

Expected<Socket> connect_until(const std::string& host, int port, Deadline deadline) {
  std::string why;
  do {
    PPSIM_ASSIGN_OR_RETURN(const auto addresses, addresses_of(host, port, 0));
    for (const addrinfo* a = addresses.get(); a != nullptr; a = a->ai_next) {
      Socket socket(::socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC, a->ai_protocol));
      if (!socket.open()) continue;
      configure(socket);  // connecting gives up as early
      if (::connect(socket.descriptor(), a->ai_addr, a->ai_addrlen) == 0) return socket;
      why = system_text();
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  } while (std::chrono::steady_clock::now() < deadline);
  return make_error(ErrorCode::io,
                    "process 0 does not answer at " + host + ":" + std::to_string(port) + ": " + why);
}

bool send_frame(const Socket& socket, const Frame& frame) {
  const FrameHeader header{frame.bytes.size(), frame.epoch, static_cast<std::uint32_t>(frame.kind)};
  std::string bytes(reinterpret_cast<const char*>(&header), sizeof header);
  bytes += frame.bytes;  // one system call, and so one packet where it fits
  return send_all(socket, bytes.data(), bytes.size());
}

std::optional<Frame> receive_frame(const Socket& socket) {
  return receive(socket, std::numeric_limits<std::uint64_t>::max(), nullptr);
}

std::optional<Frame> receive_small_frame(const Socket& socket, std::uint64_t largest, Deadline deadline) {
  return receive(socket, largest, &deadline);
}

}  // namespace ppsim::gpu_backend
