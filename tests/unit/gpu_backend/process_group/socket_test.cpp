#include "process_group/socket.hpp"

#include <gtest/gtest.h>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

namespace ppsim {

using namespace gpu_backend;
namespace {

int option(const Socket& socket, int level, int name) {
  int value = 0;
  socklen_t size = sizeof value;
  ::getsockopt(socket.descriptor(), level, name, &value, &size);
  return value;
}

/// Taking a host off its network needs rights and time that a test has not: the kernel is asked what it would
/// do.
void expect_lost_hosts_are_noticed(const Socket& socket) {
  EXPECT_NE(option(socket, SOL_SOCKET, SO_KEEPALIVE), 0);
  const int idle = option(socket, IPPROTO_TCP, TCP_KEEPIDLE);
  const int probes = option(socket, IPPROTO_TCP, TCP_KEEPCNT) * option(socket, IPPROTO_TCP, TCP_KEEPINTVL);
  EXPECT_EQ(std::chrono::seconds(idle + probes), kLostHost);
  EXPECT_EQ(std::chrono::milliseconds(option(socket, IPPROTO_TCP, TCP_USER_TIMEOUT)), kLostHost);
}

TEST(Socket, GivesUpOnAHostThatNoLongerAnswersAtBothEnds) {
  const Socket listener = listen_at("127.0.0.1", 0).value();
  const Deadline soon = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  const Socket near = connect_until("127.0.0.1", port_of(listener), soon).value();
  const std::optional<Socket> far = accept_until(listener, soon);
  ASSERT_TRUE(far.has_value());
  expect_lost_hosts_are_noticed(near);
  expect_lost_hosts_are_noticed(*far);
}

}  // namespace
}  // namespace ppsim
