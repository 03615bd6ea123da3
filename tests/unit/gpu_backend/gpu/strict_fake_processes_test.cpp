// The fake reports a fault to the process that commits it, whatever others do at the same time.

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>

#include "support/fake_gpu/answers.hpp"
#include "support/fake_gpu/run.hpp"
#include "transport/nccl/nccl_table.hpp"

namespace ppsim::test {

using namespace gpu_backend;
namespace {

/// A process of one host, which makes a device current on the thread that calls it.
struct FakeProcess {
  FakeProcess(FakeGpu& gpu, int own) : api(gpu.api()), device(own) {}
  void enter() const {
    CUctx_st* context = nullptr;
    api.cuda.primary_context_retain(&context, device);
    api.cuda.context_set_current(context);
  }
  [[nodiscard]] CUstream_st* stream() const {
    CUstream_st* made = nullptr;
    EXPECT_EQ(api.cuda.stream_create(&made, kCudaStreamNonBlocking, 0), kCudaSuccess);
    return made;
  }
  [[nodiscard]] CudaAddress memory() const {
    CudaAddress made = 0;
    EXPECT_EQ(api.cuda.memory_allocate(&made, 64), kCudaSuccess);
    return made;
  }
  /// Waits until the calls before are through.
  void settle(ncclComm* communicator) const {
    for (int state = kNcclInProgress; state == kNcclInProgress;)
      EXPECT_EQ(api.nccl.async_error(communicator, &state), kNcclSuccess);
  }
  /// A communicator of two, whose calls block.
  [[nodiscard]] ncclComm* pair(const NcclUniqueId& id) const {
    NcclConfig config;
    config.blocking = 0;
    ncclComm* all = nullptr;
    ncclComm* made = nullptr;
    EXPECT_EQ(api.nccl.communicator_init(&all, 2, id, device, &config), kNcclSuccess);
    settle(all);
    config.blocking = 1;
    EXPECT_EQ(api.nccl.communicator_split(all, 0, device, &made, &config), kNcclSuccess);
    settle(all);
    return made;
  }

  GpuApi api;
  int device;
};

FakeGpuOptions in_one_host(int devices) { return {.devices = devices, .jumps = false}; }

TEST(StrictFakeProcesses, AStepIsOneOfTheProcessWhoseHostIsInIt) {
  FakeGpu gpu(in_one_host(2));
  const FakeProcess steps(gpu, 0);
  const FakeProcess begins(gpu, 1);
  steps.enter();
  CUstream_st* const stream = steps.stream();
  const CudaAddress memory = steps.memory();
  steps.api.marks.push("PP:step");
  std::jthread([&] {
    begins.enter();
    begins.api.cuda.fill_async(begins.memory(), 0, 64, begins.stream());
  }).join();
  EXPECT_EQ(faults_of(gpu), "");
  EXPECT_EQ(gpu.books().in_steps, FakeCounts{});
  steps.api.cuda.fill_async(memory, 0, 64, stream);
  EXPECT_EQ(gpu.books().in_steps, FakeCounts{.launches = 1});
  std::jthread([&] {  // another thread of the same process
    steps.enter();
    static_cast<void>(steps.stream());
  })
      .join();
  EXPECT_TRUE(gpu.found(FaultKind::lazy_creation)) << faults_of(gpu);
}

TEST(StrictFakeProcesses, EachLoadsAKernelForItself) {
  FakeGpu gpu(in_one_host(2));
  const FakeProcess has(gpu, 0);
  const FakeProcess lacks(gpu, 1);
  has.enter();
  gpu.launch(has.stream(), {.kernel = "a kernel"});
  lacks.enter();
  CUstream_st* const stream = lacks.stream();
  lacks.api.marks.push("PP:step");
  gpu.launch(stream, {.kernel = "a kernel"});
  EXPECT_TRUE(gpu.found(FaultKind::lazy_creation)) << faults_of(gpu);
}

TEST(StrictFakeProcesses, WhatAHostHasWrittenIsCopiedFromPinnedMemory) {
  FakeGpu gpu(in_one_host(1));
  const FakeProcess process(gpu, 0);
  process.enter();
  CUstream_st* const stream = process.stream();
  void* pinned = nullptr;
  process.api.cuda.host_allocate(&pinned, 64, 0);
  std::memset(pinned, 1, 64);
  const CudaAddress memory = process.memory();
  process.api.cuda.copy_async(memory, reinterpret_cast<CudaAddress>(pinned), 64, stream);
  while (gpu.advance()) continue;
  EXPECT_EQ(faults_of(gpu), "");
  process.api.cuda.copy_async(memory, process.memory(), 64, stream);
  while (gpu.advance()) continue;
  EXPECT_TRUE(gpu.found(FaultKind::never_written)) << faults_of(gpu);
}

TEST(StrictFakeProcesses, WhoMeetsAnotherWaitsForItBesideTheStepsOfAThird) {
  FakeGpu gpu(in_one_host(3));
  const FakeProcess sends(gpu, 0);
  const FakeProcess receives(gpu, 1);
  const FakeProcess steps(gpu, 2);
  NcclUniqueId id;
  sends.api.nccl.unique_id(&id);
  steps.api.marks.push("PP:step");
  std::atomic<bool> asks = false;
  std::atomic<bool> has_sent = false;
  std::atomic<bool> comes = false;
  const std::jthread sender([&] {
    sends.enter();
    ncclComm* const pair = sends.pair(id);
    asks = true;
    sends.api.nccl.send(memory_at(sends.memory()), 64, kNcclUint8, 1, pair, sends.stream());
    has_sent = true;
  });
  const std::jthread receiver([&] {
    receives.enter();
    ncclComm* const pair = receives.pair(id);
    while (!comes) std::this_thread::yield();
    receives.api.nccl.receive(memory_at(receives.memory()), 64, kNcclUint8, 0, pair, receives.stream());
  });
  while (!asks) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_FALSE(has_sent) << "nobody has come to receive";
  comes = true;
}

/// The results of asking for a communicator of two on device 0, and of waiting until it is made.
int open_pair(const GpuApi& api, const NcclUniqueId& id, int rank, ncclComm** made) {
  CUctx_st* context = nullptr;
  api.cuda.primary_context_retain(&context, 0);
  api.cuda.context_set_current(context);
  NcclConfig config;
  config.blocking = 0;
  return api.nccl.communicator_init(made, 2, id, rank, &config);
}

TEST(StrictFakeProcesses, TwoRanksOnADeviceAreRefusedUnlessTheyAreOfTwoMachines) {
  for (const bool apart : {false, true}) {
    FakeGpu gpu(in_one_host(1));
    const GpuApi one = gpu.api(0, apart ? "one" : "");
    const GpuApi other = gpu.api(0, apart ? "other" : "");
    NcclUniqueId id;
    one.nccl.unique_id(&id);
    ncclComm* first = nullptr;
    ncclComm* second = nullptr;
    EXPECT_EQ(open_pair(one, id, 0, &first), kNcclSuccess);
    EXPECT_EQ(open_pair(other, id, 1, &second), apart ? kNcclSuccess : kNcclInvalidUsage);
  }
}

TEST(StrictFakeProcesses, AGroupThatIsRefusedIsRefusedAtItsEnd) {
  FakeGpu gpu(in_one_host(1));
  const GpuApi api = gpu.api();
  NcclUniqueId id;
  api.nccl.unique_id(&id);
  std::array<ncclComm*, 2> made{};
  api.nccl.group_start();
  for (const int rank : {0, 1}) EXPECT_EQ(open_pair(api, id, rank, &made.at(rank)), kNcclSuccess);
  EXPECT_EQ(api.nccl.group_end(), kNcclInvalidUsage);
  for (ncclComm* const one : made) EXPECT_EQ(api.nccl.communicator_abort(one), kNcclSuccess);
  EXPECT_EQ(faults_of(gpu), "");
}

}  // namespace
}  // namespace ppsim::test
