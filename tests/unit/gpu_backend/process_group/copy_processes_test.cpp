// Copies between processes of a host, which are threads that share one strict fake: the memory that they lend
// each other by CUDA IPC, and how they end.

#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <thread>

#include "ppsim/core/lowering/lowering.hpp"
#include "ppsim/gpu_backend/executor/backend_error.hpp"
#include "ppsim/gpu_backend/stage_model/null_model.hpp"
#include "ppsim/schedules/registry.hpp"
#include "support/fake_gpu/run.hpp"
#include "support/fake_gpu/tampered.hpp"
#include "transport/copy/shared_flags.hpp"

namespace ppsim::test {

using namespace gpu_backend;
namespace {

using CopyResults = std::vector<Expected<RunResult>>;
using CopyChange = std::function<void(int process, FakeRunOptions& options)>;

FakeGpuOptions shared_host(int devices) { return {.devices = devices, .jumps = false}; }

/// Runs a Program with copies, a process for each rank.
CopyResults copies_of_each(FakeGpu& gpu, const Program& program, const CopyChange& change = {}) {
  const auto ends = in_process_bootstraps(program.pipeline().ranks()).value();
  CopyResults results(ends.size());
  std::vector<std::jthread> threads;
  for (std::size_t p = 0; p < ends.size(); ++p) {
    threads.emplace_back([&, p] {
      FakeRunOptions options{.cuda = {.transport = CudaTransport::copy, .host_threads = false}};
      options.processes = ends[p].get();
      if (change) change(static_cast<int>(p), options);
      results[p] = run_on_fake(gpu, program, NullModel(), options);
    });
  }
  threads.clear();
  return results;
}

/// The number of names in /dev/shm from runs of this process.
int shared_names() {
  int found = 0;
  const std::string own = "ppsim-" + std::to_string(getpid()) + "-";
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm"))
    found += entry.path().filename().string().starts_with(own) ? 1 : 0;
  return found;
}

TEST(CopyProcesses, LendForStepAfterStepAndGiveEverythingBack) {
  const Program program = lower(generate("1f1b", {.ranks = 3, .microbatches = 5}).value(), {}).value();
  FakeGpu gpu(shared_host(3));
  const CopyResults results =
      copies_of_each(gpu, program, [](int, FakeRunOptions& options) { options.steps = 4; });
  gpu.check_teardown();
  EXPECT_TRUE(gpu.faults().empty()) << faults_of(gpu);
  for (const auto& result : results) ASSERT_TRUE(result) << to_string(result.error());
  EXPECT_EQ(results[0]->step_ns.size(), 4U);
  EXPECT_EQ(shared_names(), 0);
}

/// Two events for a channel, whatever the number of microbatches, and an allocation is opened once for a
/// device.
TEST(CopyProcesses, LendTwoEventsForAChannelAndOpenAnAllocationOnce) {
  for (const int microbatches : {4, 32}) {
    const Program program =
        lower(generate("1f1b", {.ranks = 2, .microbatches = microbatches}).value(), {}).value();
    FakeGpu gpu(shared_host(2));
    std::atomic<int> events = 0;
    std::atomic<int> openings = 0;
    const CopyResults results = copies_of_each(gpu, program, [&](int, FakeRunOptions& options) {
      options.tamper = [&](GpuApi& api) {
        api.cuda.ipc_event_open = [&, open = api.cuda.ipc_event_open](CUevent_st** event, CudaIpcHandle of) {
          ++events;
          return open(event, of);
        };
        api.cuda.ipc_memory_open = [&, open = api.cuda.ipc_memory_open](CudaAddress* at, CudaIpcHandle of,
                                                                        unsigned int flags) {
          ++openings;
          return open(at, of, flags);
        };
      };
    });
    for (const auto& result : results) ASSERT_TRUE(result) << to_string(result.error());
    EXPECT_EQ(events, 2 * 2);
    EXPECT_EQ(openings, 2);
  }
}

/// Only the events that processes lend each other order their accesses to one memory.
TEST(CopyProcesses, AWaitForAnotherProcessThatIsLeftOutIsARace) {
  for (const auto& [process, action] : {std::pair(1, "1RECV_F1"), {0, "0RECV_B0"}}) {
    FakeGpu gpu(shared_host(2));
    const CopyResults results = copies_of_each(gpu, small_program(), [&](int own, FakeRunOptions& options) {
      if (own != process) return;
      options.tamper = [mark = StepMark(), text = action](GpuApi& api) {
        mark.watch(api);
        api.cuda.stream_wait_event = [mark, text, wait = api.cuda.stream_wait_event](
                                         CUstream_st* stream, CUevent_st* event, unsigned int flags) {
          return mark.in_action(text) ? kCudaSuccess : wait(stream, event, flags);
        };
      };
    });
    EXPECT_TRUE(gpu.found(FaultKind::race) || gpu.found(FaultKind::never_written)) << action << '\n'
                                                                                   << faults_of(gpu);
  }
}

TEST(CopyProcesses, AGraphOfAllIsRefused) {
  FakeGpu gpu(shared_host(2));
  for (const auto& result :
       copies_of_each(gpu, small_program(), [](int, FakeRunOptions& o) { o.cuda.graphs = true; })) {
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code, ErrorCode::bad_argument);
    EXPECT_NE(to_string(result.error()).find("one graph has the steps of all ranks"), std::string::npos)
        << to_string(result.error());
  }
}

TEST(CopyProcesses, ADriverThatOpensNothingIsNamedAndEndsAll) {
  FakeGpu gpu(shared_host(2));
  const CopyResults results = copies_of_each(gpu, small_program(), [](int process, FakeRunOptions& options) {
    if (process == 0) return;
    options.tamper = [](GpuApi& api) {
      api.cuda.ipc_memory_open = [](CudaAddress*, CudaIpcHandle, unsigned int) { return 214; };
    };
  });
  for (const auto& result : results) {
    ASSERT_FALSE(result);
    EXPECT_NE(result.error().message.find("rank 1: opening memory of another process (do both have one IPC "
                                          "namespace, and access to each other's devices?): "),
              std::string::npos)
        << result.error().message;
  }
  EXPECT_FALSE(gpu.found(FaultKind::leak)) << faults_of(gpu);
  EXPECT_FALSE(gpu.found(FaultKind::use_after_free)) << faults_of(gpu);
  EXPECT_EQ(shared_names(), 0);
}

TEST(CopyProcesses, AnErrorInAStepEndsAll) {
  FakeGpu gpu(shared_host(2));
  const CopyResults results = copies_of_each(gpu, small_program(), [](int process, FakeRunOptions& options) {
    if (process == 0) return;
    options.tamper = [mark = StepMark()](GpuApi& api) {
      mark.watch(api);
      api.cuda.copy_async = [mark, copy = api.cuda.copy_async](CudaAddress to, CudaAddress from,
                                                               std::size_t bytes, CUstream_st* on) {
        return mark.in_action("1SEND_B1") ? 214 : copy(to, from, bytes, on);
      };
    };
  });
  for (const auto& result : results) {
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().message.rfind("process 1 (rank 1): rank 1: 1SEND_B1: a copy: ", 0), 0U)
        << result.error().message;
  }
  EXPECT_FALSE(gpu.found(FaultKind::use_after_free)) << faults_of(gpu);
}

TEST(SharedFlags, AreSeenByAllProcessesAndHaveNoNameAnyMore) {
  const auto ends = in_process_bootstraps(2).value();
  const Program program = small_program();
  const ExecutionGraph graph;
  std::atomic<bool> set = false;
  std::vector<std::jthread> threads;
  for (int p = 0; p < 2; ++p) {
    threads.emplace_back([&, p] {
      Peers peers({program, graph, {p, p + 1}, ends[static_cast<std::size_t>(p)].get(), {}});
      SharedFlags flags(3, peers);
      EXPECT_EQ(p == 0 ? shared_names() : 0, 0);
      EXPECT_FALSE(flags.reached(0, 1)) << "0 at first";
      peers.assemble();
      if (p == 1) flags.set(2, 7);
      if (p == 1) set = true;
      while (!set) std::this_thread::yield();
      EXPECT_TRUE(flags.reached(2, 7));
      EXPECT_FALSE(flags.reached(2, 8));
      EXPECT_FALSE(flags.reached(1, 1));
    });
  }
}

// The fake's own rules.

struct TwoProcesses {
  FakeGpu gpu{shared_host(1)};
  GpuApi one = gpu.api();
  GpuApi other = gpu.api();

  TwoProcesses() {
    CUctx_st* context = nullptr;
    one.cuda.primary_context_retain(&context, 0);
    one.cuda.context_set_current(context);
  }
  [[nodiscard]] CudaAddress allocated() {
    CudaAddress memory = 0;
    one.cuda.memory_allocate(&memory, 64);
    return memory;
  }
  [[nodiscard]] static CUstream_st* stream(const GpuApi& api) {
    CUstream_st* made = nullptr;
    api.cuda.stream_create(&made, kCudaStreamNonBlocking, 0);
    return made;
  }
  [[nodiscard]] CudaAddress borrowed(CudaAddress memory) {
    CudaIpcHandle handle;
    EXPECT_EQ(one.cuda.ipc_memory_handle(&handle, memory), kCudaSuccess);
    CudaAddress mapped = 0;
    EXPECT_EQ(other.cuda.ipc_memory_open(&mapped, handle, kCudaIpcLazyPeerAccess), kCudaSuccess);
    return mapped;
  }
};

TEST(StrictFakeIpc, BorrowedMemoryIsTheSameBytesAtAnotherAddress) {
  TwoProcesses two;
  const CudaAddress memory = two.allocated();
  const CudaAddress mapped = two.borrowed(memory);
  EXPECT_NE(mapped, memory);
  two.other.cuda.fill_async(mapped, 7, 64, TwoProcesses::stream(two.other));
  two.other.clock.pause();
  EXPECT_EQ(*reinterpret_cast<const char*>(memory), 7);
  EXPECT_TRUE(two.gpu.faults().empty()) << faults_of(two.gpu);
}

TEST(StrictFakeIpc, MemoryOfAnotherProcessIsOutOfBounds) {
  TwoProcesses two;
  two.other.cuda.fill_async(two.allocated(), 7, 64, TwoProcesses::stream(two.other));
  two.other.clock.pause();
  EXPECT_TRUE(two.gpu.found(FaultKind::out_of_bounds));
}

TEST(StrictFakeIpc, NothingOrdersAccessesOfTwoProcessesButAnEvent) {
  for (const bool waits : {true, false}) {
    TwoProcesses two;
    const CudaAddress memory = two.allocated();
    const CudaAddress mapped = two.borrowed(memory);
    CUevent_st* event = nullptr;
    two.one.cuda.event_create(&event, kCudaEventDisableTiming | kCudaEventInterprocess);
    CudaIpcHandle handle;
    ASSERT_EQ(two.one.cuda.ipc_event_handle(&handle, event), kCudaSuccess);
    CUevent_st* lent = nullptr;
    ASSERT_EQ(two.other.cuda.ipc_event_open(&lent, handle), kCudaSuccess);
    CUstream_st* const writes = TwoProcesses::stream(two.one);
    CUstream_st* const follows = TwoProcesses::stream(two.other);
    two.one.cuda.fill_async(memory, 1, 64, writes);
    two.one.cuda.event_record(event, writes, kCudaEventDefault);
    if (waits) two.other.cuda.stream_wait_event(follows, lent, 0);
    two.other.cuda.fill_async(mapped, 2, 64, follows);
    while (two.other.cuda.stream_query(follows) != kCudaSuccess) two.other.clock.pause();
    EXPECT_EQ(two.gpu.found(FaultKind::race), !waits) << faults_of(two.gpu);
  }
}

TEST(StrictFakeIpc, WhatIsLentStaysUntilItIsGivenBack) {
  TwoProcesses two;
  const CudaAddress memory = two.allocated();
  const CudaAddress mapped = two.borrowed(memory);
  two.one.cuda.memory_free(memory);
  EXPECT_TRUE(two.gpu.found(FaultKind::use_after_free)) << faults_of(two.gpu);
  TwoProcesses good;
  const CudaAddress kept = good.allocated();
  good.other.cuda.ipc_memory_close(good.borrowed(kept));
  good.one.cuda.memory_free(kept);
  EXPECT_TRUE(good.gpu.faults().empty()) << faults_of(good.gpu);
  static_cast<void>(mapped);
}

TEST(StrictFakeIpc, AnEventThatIsNotForOthersIsNotLent) {
  TwoProcesses two;
  CUevent_st* event = nullptr;
  two.one.cuda.event_create(&event, kCudaEventDisableTiming);
  CudaIpcHandle handle;
  EXPECT_NE(two.one.cuda.ipc_event_handle(&handle, event), kCudaSuccess);
  EXPECT_TRUE(two.gpu.found(FaultKind::bad_call));
}

}  // namespace
}  // namespace ppsim::test
