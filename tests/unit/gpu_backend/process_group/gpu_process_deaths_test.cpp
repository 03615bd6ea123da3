// Processes of the executor of streams that die or do not answer, as threads that share one strict fake.

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <map>
#include <thread>

#include "executor/gpu/gpu_execute.hpp"
#include "ppsim/gpu_backend/stage_model/null_model.hpp"
#include "process_group/tcp_bootstrap.hpp"
#include "support/fake_gpu/processes.hpp"
#include "support/fake_gpu/run.hpp"

namespace ppsim::test {

using namespace gpu_backend;
namespace {

/// Two processes that hold the two ends of a connection, which can be cut.
struct Connected {
  ProcessEnds ends;
  int descriptor = -1;  ///< of the connection

  Connected() {
    std::array<int, 2> pair{};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, pair.data()), 0);
    descriptor = ::dup(pair[0]);
    for (int p = 0; p < 2; ++p) {
      std::map<int, Socket> sockets;
      sockets.emplace(1 - p, Socket(pair[static_cast<std::size_t>(p)]));
      ends.push_back(std::make_unique<TcpBootstrap>(Membership{.process = p, .size = 2, .local_process = p},
                                                    std::move(sockets)));
    }
  }
  ~Connected() { ::close(descriptor); }
  Connected(const Connected&) = delete;
  Connected& operator=(const Connected&) = delete;
  /// As the kernel does when a process dies.
  void cut() const { ::shutdown(descriptor, SHUT_RDWR); }
};

/// Changes the tables of a process that is about to die by `die`.
using Dying = std::function<void(GpuApi& api, const std::function<void()>& die)>;

/// One of two processes dies; the other one has to notice and end. Returns: what that one says.
Error death_of(std::size_t dead, const Dying& dying) {
  const Connected connected;
  FakeGpu gpu(host_with(2));
  std::atomic<bool> over = false;
  const auto run = [&](std::size_t process, const std::function<void(GpuApi&)>& tamper) {
    return run_on_fake(gpu, lowered_program("1f1b", 2, 8), NullModel(),
                       {.processes = connected.ends[process].get(), .tamper = tamper});
  };
  Expected<RunResult> survivor;
  {
    std::jthread first([&] {
      survivor = run(1 - dead, in_real_time);
      over = true;
    });
    std::jthread second([&] {
      const auto die = [&] {
        connected.cut();
        while (!over) std::this_thread::yield();  // the dead do nothing
      };
      static_cast<void>(run(dead, [&](GpuApi& api) {
        in_real_time(api);
        dying(api, die);
      }));
    });
  }
  EXPECT_FALSE(survivor);
  return survivor ? Error{} : survivor.error();
}

/// Dies when it enqueues an action.
Dying at_action(const std::string& mark) {
  return [mark](GpuApi& api, const std::function<void()>& die) {
    api.marks.push = [mark, die, push = api.marks.push](const char* name) {
      push(name);
      if (name == mark) die();
    };
  };
}

TEST(GpuProcessDeaths, ADeathInAStepEndsAll) {
  const Error error = death_of(1, at_action("PP:1F2"));
  EXPECT_EQ(error.code, ErrorCode::io);
  EXPECT_EQ(
      error.message.rfind("process 1 is gone: it was killed, or cannot be reached any more\nrank 0: ", 0), 0U)
      << error.message;
}

TEST(GpuProcessDeaths, ADeathOfProcess0EndsAll) {
  const std::string message = death_of(0, at_action("PP:0F2")).message;
  EXPECT_EQ(message.rfind("process 0 is gone: it was killed, or cannot be reached any more\nrank 1: ", 0), 0U)
      << message;
}

TEST(GpuProcessDeaths, OneThatDoesNotAnswerIsNamed) {
  const ProcessEnds ends = in_process_bootstraps(2).value();
  FakeGpu gpu(host_with(2));
  std::atomic<bool> over = false;
  Expected<RunResult> first;
  {
    std::jthread answering([&] {
      first = run_on_fake(gpu, lowered_program("1f1b", 2, 8), NullModel(),
                          {.processes = ends[0].get(), .deadline_s = kLate_s, .tamper = in_real_time});
      over = true;
    });
    std::jthread stuck([&] {
      const auto tamper = [&](GpuApi& api) {
        in_real_time(api);
        at_action("PP:1F2")(api, [&] {
          while (!over) std::this_thread::yield();
        });
      };
      static_cast<void>(run_on_fake(gpu, lowered_program("1f1b", 2, 8), NullModel(),
                                    {.processes = ends[1].get(), .tamper = tamper}));
    });
  }
  ASSERT_FALSE(first);
  EXPECT_EQ(first.error().code, ErrorCode::io);
  EXPECT_EQ(first.error().message.rfind("process 0 (rank 0): a step did not finish within its deadline\n"
                                        "process 1 (rank 1) did not answer\nrank 0: ",
                                        0),
            0U)
      << first.error().message;
}

TEST(GpuProcessDeaths, ADeathWhileCommunicatorsOpenEndsAll) {
  const Error error = death_of(1, [](GpuApi& api, const std::function<void()>& die) {
    api.nccl.communicator_split = [die](ncclComm*, int, int, ncclComm**, NcclConfig*) {
      die();
      return kNcclInvalidUsage;
    };
  });
  EXPECT_EQ(error.message, "process 1 is gone: it was killed, or cannot be reached any more");
}

}  // namespace
}  // namespace ppsim::test
