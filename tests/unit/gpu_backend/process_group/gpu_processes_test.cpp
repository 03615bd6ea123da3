// The executor of streams on several processes, which are threads that share one strict fake: NCCL between
// them is the fake's, all else goes over connections of their own.

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <map>
#include <set>
#include <thread>

#include "executor/gpu/gpu_execute.hpp"
#include "ppsim/core/lowering/lowering.hpp"
#include "ppsim/gpu_backend/stage_model/null_model.hpp"
#include "ppsim/schedules/registry.hpp"
#include "process_group/tcp_bootstrap.hpp"
#include "support/fake_gpu/run.hpp"
#include "support/programs.hpp"

namespace ppsim::test {

using namespace gpu_backend;
namespace {

using Ends = std::vector<std::unique_ptr<Bootstrap>>;
using Results = std::vector<Expected<RunResult>>;

Program lowered_program(const std::string& name, int ranks, int microbatches) {
  return lower(generate(name, {.ranks = ranks, .microbatches = microbatches}).value(), {}).value();
}

/// A difference between one of the processes and the others.
using Change = std::function<void(int process, FakeRunOptions& options)>;

/// Time is real: nobody knows when nothing will happen any more.
void in_real_time(GpuApi& api) { api.clock.now = host_clock().now; }

/// A deadline of which nobody but who stands still is late, on a busy machine either.
constexpr double kLate_s = 2;

/// Runs a Program for each process, which has its own options, on one host with the devices of `gpu`.
Results run_on_each(FakeGpu& gpu, const Program& program, const Ends& ends, const Change& change = {}) {
  Results results(ends.size());
  {
    std::vector<std::jthread> threads;
    for (std::size_t p = 0; p < ends.size(); ++p) {
      threads.emplace_back([&, p] {
        FakeRunOptions options;
        options.processes = ends[p].get();
        options.tamper = in_real_time;
        if (change) change(static_cast<int>(p), options);
        results[p] = run_on_fake(gpu, program, NullModel(), options);
      });
    }
  }
  return results;
}

FakeGpuOptions host_with(int devices) { return {.devices = devices, .jumps = false}; }

/// Two processes that hold the two ends of a connection, which can be cut.
struct Connected {
  Ends ends;
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

TEST(GpuProcesses, Process0GetsTheResultOfAll) {
  const Program program = lowered_program("1f1b", 4, 8);
  const Ends ends = in_process_bootstraps(2).value();
  FakeGpu gpu(host_with(4));
  const Results results = run_on_each(gpu, program, ends, [](int, FakeRunOptions& o) { o.steps = 2; });
  gpu.check_teardown();
  EXPECT_TRUE(gpu.faults().empty()) << gpu.faults().front();
  for (const auto& result : results) ASSERT_TRUE(result) << to_string(result.error());
  const RunResult& all = *results[0];
  ASSERT_EQ(all.traces.size(), 2U);
  for (const Span& span : all.traces[1].spans) EXPECT_GE(span.start.time, 0);
  for (const Bytes bytes : all.high_water_bytes) EXPECT_GT(bytes, 0);
  EXPECT_EQ(all.step_ns.size(), 2U);
  EXPECT_EQ(all.gradients.size(), 4U);
  ASSERT_EQ(all.processes.size(), 2U);
  EXPECT_EQ(all.processes[1].first_rank, RankId(2));
  FakeGpu one(host_with(4));
  const RunResult alone =
      run_on_fake(one, program, NullModel(), {.steps = 2, .tamper = in_real_time}).value();
  EXPECT_EQ(all.host.actions, alone.host.actions);
}

TEST(GpuProcesses, AllKeepTheTracesOfTheSameNewestSteps) {
  for (const bool profile : {true, false}) {
    const Ends ends = in_process_bootstraps(2).value();
    FakeGpu gpu(host_with(2));
    const Results results =
        run_on_each(gpu, lowered_program("1f1b", 2, 4), ends, [profile](int, FakeRunOptions& options) {
          options.steps = 7;
          options.kept_traces = 3;
          options.cuda.profile = profile;
        });
    for (const auto& result : results) {
      ASSERT_TRUE(result) << to_string(result.error());
      EXPECT_EQ(result->traces.size(), 3U);
      EXPECT_EQ(result->step_ns.size(), 7U);
    }
    for (const TimedTrace& trace : results[0]->traces) {
      for (const Span& span : trace.spans) EXPECT_EQ(span.start.time >= 0, profile);
    }
  }
}

/// In a graph the sums of all communicators share the multiprocessors: of the smallest device, for all ranks.
TEST(GpuProcesses, UnlikeDevicesAgreeOnTheBlocksOfASum) {
  LoweringOptions lowering;
  lowering.reduce_grad = true;
  const Program program =
      lower(generate("chimera", {.ranks = 2, .microbatches = 4}).value(), lowering).value();
  constexpr int kSmall = 24;
  const auto caps_on = [&](int multiprocessors) {
    const Ends ends = in_process_bootstraps(2).value();
    FakeGpu gpu(host_with(2));
    std::array<std::multiset<int>, 2> caps;
    const Results results = run_on_each(gpu, program, ends, [&](int process, FakeRunOptions& options) {
      options.cuda.graphs = true;
      options.tamper = [&, process](GpuApi& api) {
        in_real_time(api);
        api.cuda.device_attribute = [=, real = api.cuda.device_attribute](int* value, int which, int device) {
          const int result = real(value, which, device);
          if (process == 1 && which == kCudaAttributeMultiprocessors) *value = multiprocessors;
          return result;
        };
        api.nccl.communicator_split =
            [&own = caps[static_cast<std::size_t>(process)], real = api.nccl.communicator_split](
                ncclComm* parent, int color, int key, ncclComm** child, NcclConfig* config) {
              own.insert(config->max_ctas);
              return real(parent, color, key, child, config);
            };
      };
    });
    for (const auto& result : results) EXPECT_TRUE(result) << to_string(result.error());
    EXPECT_EQ(caps[0], caps[1]);
    return caps[0];
  };
  EXPECT_EQ(*caps_on(132).rbegin(), 32);
  const int small = *caps_on(kSmall).rbegin();
  EXPECT_GT(small, 4);
  EXPECT_LT(small, kSmall);
}

TEST(GpuProcesses, EachTakesTheDevicesOfItsLocalNumber) {
  const Program program = lowered_program("1f1b", 4, 4);
  const Ends ends = in_process_bootstraps(2).value();
  FakeGpu gpu(host_with(4));
  std::array<std::vector<int>, 2> taken;
  const Results results = run_on_each(gpu, program, ends, [&](int process, FakeRunOptions& options) {
    options.tamper = [&own = taken[static_cast<std::size_t>(process)]](GpuApi& api) {
      in_real_time(api);
      api.cuda.device_get = [&own, get = api.cuda.device_get](int* device, int ordinal) {
        own.push_back(ordinal);
        return get(device, ordinal);
      };
    };
  });
  for (const auto& result : results) ASSERT_TRUE(result) << to_string(result.error());
  EXPECT_EQ(taken[0], (std::vector<int>{0, 1}));
  EXPECT_EQ(taken[1], (std::vector<int>{2, 3}));
}

TEST(GpuProcesses, EachTakesWhatItsLauncherHasLeftItToSee) {
  const Ends ends = in_process_bootstraps(2).value();
  FakeGpu gpu(host_with(1));
  const Results results = run_on_each(gpu, lowered_program("1f1b", 2, 4), ends);
  for (const auto& result : results) EXPECT_TRUE(result) << to_string(result.error());
}

TEST(GpuProcesses, TooFewDevicesOnAHostEndAll) {
  const Ends ends = in_process_bootstraps(3).value();
  FakeGpu gpu(host_with(2));
  const Results results = run_on_each(gpu, lowered_program("1f1b", 3, 3), ends);
  for (const auto& result : results) {
    ASSERT_FALSE(result);
    EXPECT_NE(result.error().message.find("1 ranks, 1 on a device, need 1 devices; there are 2 for 3 or more "
                                          "processes on this host"),
              std::string::npos)
        << result.error().message;
  }
}

TEST(GpuProcesses, AnotherProgramIsRefusedOnAll) {
  const Ends ends = in_process_bootstraps(2).value();
  FakeGpu gpu(host_with(2));
  const Program programs[] = {lowered_program("1f1b", 2, 4), lowered_program("gpipe", 2, 4)};
  Results results(2);
  {
    std::vector<std::jthread> threads;
    for (std::size_t p = 0; p < 2; ++p) {
      threads.emplace_back([&, p] {
        results[p] =
            run_on_fake(gpu, programs[p], NullModel(), {.processes = ends[p].get(), .tamper = in_real_time});
      });
    }
  }
  for (const auto& result : results) {
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code, ErrorCode::refused);
    EXPECT_NE(result.error().message.find("process 1 is about to run with another program than process 0"),
              std::string::npos)
        << result.error().message;
  }
}

TEST(GpuProcesses, AnErrorOfADeviceStopsAllAndIsNamedWithWhatTheyWaitFor) {
  const Ends ends = in_process_bootstraps(2).value();
  FakeGpu gpu(host_with(2));
  const Results results =
      run_on_each(gpu, lowered_program("1f1b", 2, 6), ends, [](int process, FakeRunOptions& options) {
        if (process == 0) return;
        options.tamper = [](GpuApi& api) {
          in_real_time(api);
          auto open = std::make_shared<std::string>();
          auto in_step = std::make_shared<bool>(false);
          api.marks.push = [open, in_step, push = api.marks.push](const char* name) {
            *open = name;
            *in_step = *in_step || *open == "PP:step";
            push(name);
          };
          api.cuda.fill_async = [open, in_step, fill = api.cuda.fill_async](
                                    CudaAddress to, unsigned char value, std::size_t bytes, CUstream_st* on) {
            constexpr int kUncorrectable = 214;  // CUDA_ERROR_ECC_UNCORRECTABLE
            return *in_step && *open == "PP:1B0" ? kUncorrectable : fill(to, value, bytes, on);
          };
        };
      });
  for (const auto& result : results) {
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().message.rfind("process 1 (rank 1): rank 1: 1B0: filling memory: ", 0), 0U)
        << result.error().message;
  }
  EXPECT_NE(results[0].error().message.find("rank 1: 1SEND_B0 waits for rank 1: 1B0 (needs its result)"),
            std::string::npos)
      << results[0].error().message;
}

TEST(GpuProcesses, AHangIsReportedAsInOneProcess) {
  const Program program = deferred_receives(false);
  FakeGpu one(devices_for(program));
  const RunResult alone = run_on_fake(one, program, NullModel()).value();
  ASSERT_EQ(alone.outcome, RunOutcome::deadlock);
  const Ends ends = in_process_bootstraps(program.pipeline().ranks()).value();
  FakeGpu gpu(host_with(program.pipeline().ranks()));
  const Results results =
      run_on_each(gpu, program, ends, [](int, FakeRunOptions& options) { options.deadline_s = kLate_s; });
  for (const auto& result : results) {
    ASSERT_TRUE(result) << to_string(result.error());
    EXPECT_EQ(result->outcome, RunOutcome::deadlock);
  }
  EXPECT_EQ(results[0]->hang, alone.hang);
  gpu.check_teardown();
  EXPECT_TRUE(gpu.faults().empty()) << gpu.faults().front();
}

TEST(GpuProcesses, APeerThatNeverOpensItsCommunicatorIsMissed) {
  const Ends ends = in_process_bootstraps(2).value();
  FakeGpu gpu(host_with(2));
  std::atomic<bool> missed = false;
  const Results results =
      run_on_each(gpu, lowered_program("1f1b", 2, 4), ends, [&](int process, FakeRunOptions& options) {
        options.tamper = [&, process](GpuApi& api) {
          in_real_time(api);
          if (process == 0) {
            // A thousand times as fast: timeout is for minutes.
            api.clock.now = [begin = host_clock().now()] { return (host_clock().now() - begin) * 1000; };
            api.nccl.communicator_abort = [&, abort = api.nccl.communicator_abort](ncclComm* one) {
              missed = true;
              return abort(one);
            };
          } else {
            api.nccl.communicator_init = [&](ncclComm**, int, NcclUniqueId, int, NcclConfig*) {
              while (!missed) std::this_thread::yield();
              return kNcclInvalidUsage;
            };
          }
        };
      });
  ASSERT_FALSE(results[0]);
  EXPECT_EQ(results[0].error().message,
            "rank 0: opening the communicator of all ranks: the other ranks do not come");
  ASSERT_FALSE(results[1]);
}

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

TEST(GpuProcesses, ADeathInAStepEndsAll) {
  const Error error = death_of(1, at_action("PP:1F2"));
  EXPECT_EQ(error.code, ErrorCode::io);
  EXPECT_EQ(
      error.message.rfind("process 1 is gone: it was killed, or cannot be reached any more\nrank 0: ", 0), 0U)
      << error.message;
}

TEST(GpuProcesses, ADeathOfProcess0EndsAll) {
  const std::string message = death_of(0, at_action("PP:0F2")).message;
  EXPECT_EQ(message.rfind("process 0 is gone: it was killed, or cannot be reached any more\nrank 1: ", 0), 0U)
      << message;
}

TEST(GpuProcesses, OneThatDoesNotAnswerIsNamed) {
  const Ends ends = in_process_bootstraps(2).value();
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

TEST(GpuProcesses, ADeathWhileCommunicatorsOpenEndsAll) {
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
