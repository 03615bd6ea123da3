#include <algorithm>
#include <thread>
#include <utility>

#include "bytes.hpp"
#include "tcp_bootstrap.hpp"

namespace ppsim::gpu_backend {
namespace {

constexpr std::uint64_t kLargestGreeting = 1 << 12;
constexpr std::string_view kProtocol = "ppsim bootstrap 2";

Deadline deadline_of(const Membership& self) {
  return std::chrono::steady_clock::now() +
         std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::duration<double>(self.timeout_s));
}

std::string hello_of(const Membership& self) {
  return ByteWriter().put_text(kProtocol).put_text(self.token).put(self.process).put(self.size).take();
}

/// Process 0 while it waits for the others.
class Host {
 public:
  explicit Host(const Membership& self) : self_(self), deadline_(deadline_of(self)) {}

  Expected<std::map<int, Socket>> wait(const Socket& listener) {
    while (static_cast<int>(arrived_.size()) + 1 < self_.size) {
      std::optional<Socket> socket = accept_until(listener, deadline_);
      if (!socket) return tl::unexpected(missing());
      const auto process = greet(*socket);
      if (!process) return tl::unexpected(tell_all(process.error()));
      if (*process > 0) arrived_.emplace(*process, std::move(*socket));
    }
    for (const auto& [process, socket] : arrived_)
      static_cast<void>(send_frame(socket, {FrameKind::welcome}));  // the reader hears if it is gone
    return std::move(arrived_);
  }

 private:
  /// Returns: the number of a process of this run; 0 for somebody else.
  Expected<int> greet(const Socket& socket) const {
    constexpr auto kGreetingTimeout = std::chrono::seconds(5);  // for those who connect and say nothing
    const auto hello =
        receive_small_frame(socket, kLargestGreeting, std::chrono::steady_clock::now() + kGreetingTimeout);
    if (!hello || hello->kind != FrameKind::hello) return 0;
    try {
      ByteReader reader(hello->bytes);
      if (reader.get_text() != kProtocol || reader.get_text() != self_.token) return 0;
      const auto process = reader.get<int>();
      return check(process, reader.get<int>());
    } catch (const BackendError&) {
      return 0;
    }
  }

  [[nodiscard]] Expected<int> check(int process, int size) const {
    const std::string name = "process " + std::to_string(process);
    if (size != self_.size) {
      return make_error(ErrorCode::bad_argument, name + " is one of " + std::to_string(size) +
                                                     " processes, process 0 one of " +
                                                     std::to_string(self_.size));
    }
    if (process < 1 || process >= size)
      return make_error(ErrorCode::bad_argument,
                        name + " is out of range: there are " + std::to_string(size));
    if (arrived_.contains(process)) return make_error(ErrorCode::bad_argument, "two processes are " + name);
    return process;
  }

  [[nodiscard]] Error missing() const {
    std::string names;
    for (int p = 1; p < self_.size; ++p) {
      if (!arrived_.contains(p)) names += (names.empty() ? "" : ", ") + std::to_string(p);
    }
    return tell_all({ErrorCode::io, "of " + std::to_string(self_.size) +
                                        " processes these did not arrive in " +
                                        std::to_string(static_cast<int>(self_.timeout_s)) + " s: " + names});
  }

  [[nodiscard]] Error tell_all(const Error& error) const {
    const std::string text = ByteWriter().put(error.code).put_text(error.message).take();
    for (const auto& [process, socket] : arrived_)
      static_cast<void>(send_frame(socket, {FrameKind::stop, 0, text}));
    return error;
  }

  const Membership& self_;
  Deadline deadline_;
  std::map<int, Socket> arrived_;
};

Expected<void> check_membership(const Membership& self) {
  if (self.size >= 1 && self.process >= 0 && self.process < self.size) return {};
  return make_error(ErrorCode::bad_argument,
                    "no process " + std::to_string(self.process) + " among " + std::to_string(self.size));
}

}  // namespace

Expected<std::unique_ptr<Bootstrap>> TcpBootstrap::host(const Membership& self, Socket listener) {
  PPSIM_ASSIGN_OR_RETURN(auto sockets, Host(self).wait(listener));
  return std::make_unique<TcpBootstrap>(self, std::move(sockets));
}

Expected<std::unique_ptr<Bootstrap>> TcpBootstrap::join(const Membership& self) {
  const Deadline deadline = deadline_of(self);
  PPSIM_ASSIGN_OR_RETURN(auto socket, connect_until(self.host, self.port, deadline));
  std::optional<Frame> answer;
  if (send_frame(socket, {FrameKind::hello, 0, hello_of(self)}))
    answer = receive_small_frame(socket, kLargestGreeting, deadline + std::chrono::seconds(5));
  if (!answer)
    return make_error(ErrorCode::io, "process 0 has not let process " + std::to_string(self.process) + " in");
  if (answer->kind == FrameKind::stop) {
    ByteReader reader(answer->bytes);
    const auto code = reader.get<ErrorCode>();
    return make_error(code, std::string(reader.get_text()));
  }
  std::map<int, Socket> sockets;
  sockets.emplace(0, std::move(socket));
  return std::make_unique<TcpBootstrap>(self, std::move(sockets));
}

Expected<std::unique_ptr<Bootstrap>> connect_processes(const Membership& membership) {
  PPSIM_RETURN_IF_ERROR(check_membership(membership));
  if (membership.process > 0) return TcpBootstrap::join(membership);
  if (membership.size == 1) return std::make_unique<TcpBootstrap>(membership, std::map<int, Socket>());
  PPSIM_ASSIGN_OR_RETURN(auto listener, listen_at(membership.host, membership.port));
  return TcpBootstrap::host(membership, std::move(listener));
}

Expected<std::vector<std::unique_ptr<Bootstrap>>> in_process_bootstraps(int size) {
  PPSIM_ASSIGN_OR_RETURN(auto listener, listen_at("127.0.0.1", 0));
  const int port = port_of(listener);
  std::vector<Expected<std::unique_ptr<Bootstrap>>> ends(static_cast<std::size_t>(size));
  {
    std::vector<std::jthread> threads;
    for (int p = 1; p < size; ++p) {
      threads.emplace_back([&, p] {
        ends[static_cast<std::size_t>(p)] = TcpBootstrap::join(
            {.process = p, .size = size, .local_process = p, .host = "127.0.0.1", .port = port});
      });
    }
    ends[0] = TcpBootstrap::host({.process = 0, .size = size}, std::move(listener));
  }
  std::vector<std::unique_ptr<Bootstrap>> result;
  for (auto& end : ends) {
    PPSIM_RETURN_IF_ERROR(end);
    result.push_back(*std::move(end));
  }
  return result;
}

}  // namespace ppsim::gpu_backend
