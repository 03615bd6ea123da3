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
#include "support/fake_gpu/processes.hpp"
#include "support/fake_gpu/run.hpp"
#include "support/programs.hpp"

namespace ppsim::test {

using namespace gpu_backend;
namespace {

using Results = std::vector<Expected<RunResult>>;

/// A difference between one of the processes and the others.
using Change = std::function<void(int process, FakeRunOptions& options)>;

/// Runs a Program for each process, which has its own options, on one host with the devices of `gpu`.
Results run_on_each(FakeGpu& gpu, const Program& program, const ProcessEnds& ends,
                    const Change& change = {}) {
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

TEST(GpuProcesses, Process0GetsTheResultOfAll) {
  const Program program = lowered_program("1f1b", 4, 8);
  const ProcessEnds ends = in_process_bootstraps(2).value();
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
    const ProcessEnds ends = in_process_bootstraps(2).value();
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
    const ProcessEnds ends = in_process_bootstraps(2).value();
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
  const ProcessEnds ends = in_process_bootstraps(2).value();
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
  const ProcessEnds ends = in_process_bootstraps(2).value();
  FakeGpu gpu(host_with(1));
  const Results results =
      run_on_each(gpu, lowered_program("1f1b", 2, 4), ends, [&](int process, FakeRunOptions& options) {
        options.tamper = [&gpu, process](GpuApi& api) {
          api = gpu.api(process);  // number 0 of each is another one
          in_real_time(api);
        };
      });
  for (const auto& result : results) EXPECT_TRUE(result) << to_string(result.error());
}

TEST(GpuProcesses, TooFewDevicesOnAHostEndAll) {
  const ProcessEnds ends = in_process_bootstraps(3).value();
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
  const ProcessEnds ends = in_process_bootstraps(2).value();
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
  const ProcessEnds ends = in_process_bootstraps(2).value();
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
  const ProcessEnds ends = in_process_bootstraps(program.pipeline().ranks()).value();
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
  const ProcessEnds ends = in_process_bootstraps(2).value();
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

}  // namespace
}  // namespace ppsim::test
