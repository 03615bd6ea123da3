#pragma once

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <string>

namespace ppsim::test {

/// The variable with the folder of a running fake: its socket, and pinned memory.
inline constexpr const char* kFolderVariable = "PPSIM_SERVED_GPU";

inline sockaddr_un socket_address(const std::string& folder) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  (folder + "/socket").copy(address.sun_path, sizeof address.sun_path - 1);
  return address;
}

/// Returns: false where the other end is gone.
inline bool send_all(int socket, const char* bytes, std::size_t size) {
  while (size > 0) {
    const ssize_t sent = ::send(socket, bytes, size, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    bytes += sent;
    size -= static_cast<std::size_t>(sent);
  }
  return true;
}
inline bool receive_all(int socket, char* bytes, std::size_t size) {
  while (size > 0) {
    const ssize_t got = ::recv(socket, bytes, size, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    bytes += got;
    size -= static_cast<std::size_t>(got);
  }
  return true;
}

/// A message with its size in front.
inline bool send_message(int socket, const std::string& bytes) {
  const auto size = static_cast<std::uint32_t>(bytes.size());
  std::string whole(reinterpret_cast<const char*>(&size), sizeof size);
  whole += bytes;
  return send_all(socket, whole.data(), whole.size());
}
inline bool receive_message(int socket, std::string& bytes) {
  std::uint32_t size = 0;
  if (!receive_all(socket, reinterpret_cast<char*>(&size), sizeof size)) return false;
  bytes.resize(size);
  return receive_all(socket, bytes.data(), size);
}

}  // namespace ppsim::test
