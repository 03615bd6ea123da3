#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "ppsim/core/ir/error.hpp"

namespace ppsim::gpu_backend {

using Deadline = std::chrono::steady_clock::time_point;

/// After this long without an answer a connection is over.
constexpr std::chrono::seconds kLostHost{10};

/// The purpose of a frame.
enum class FrameKind : std::uint32_t {
  hello,
  welcome,
  part,
  all,
  note,
  abort,
  late,
  given_up,
  at_work,
  stop,
  ping,
  pong,
  bye
};

/// One message of a connection.
struct Frame {
  FrameKind kind = FrameKind::bye;
  std::uint32_t epoch = 0;  ///< how many stops its sender has seen
  std::string bytes = {};
};

/// A file descriptor with one owner.
class Socket {
 public:
  Socket() = default;
  explicit Socket(int descriptor) : descriptor_(descriptor) {}
  Socket(Socket&& other) noexcept : descriptor_(other.release()) {}
  Socket& operator=(Socket&& other) noexcept;
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  ~Socket() { close(); }

  [[nodiscard]] int descriptor() const { return descriptor_; }
  [[nodiscard]] bool open() const { return descriptor_ >= 0; }
  void close();

 private:
  int release();
  int descriptor_ = -1;
};

/// A socket that others connect to; an empty host means every address, port 0 a free one.
/// Errors: io saying why.
[[nodiscard]] Expected<Socket> listen_at(const std::string& host, int port);
[[nodiscard]] int port_of(const Socket& listener);
/// Nothing when nobody came in time.
[[nodiscard]] std::optional<Socket> accept_until(const Socket& listener, Deadline deadline);
/// Tries again until somebody listens there. Errors: io naming the address, and why.
[[nodiscard]] Expected<Socket> connect_until(const std::string& host, int port, Deadline deadline);

/// False when the connection is over.
[[nodiscard]] bool send_frame(const Socket& socket, const Frame& frame);
/// Nothing when the connection is over.
[[nodiscard]] std::optional<Frame> receive_frame(const Socket& socket);
/// Nothing when it is over, or no whole frame of at most `largest` bytes came in time.
[[nodiscard]] std::optional<Frame> receive_small_frame(const Socket& socket, std::uint64_t largest,
                                                       Deadline deadline);

}  // namespace ppsim::gpu_backend
