// Behaviour of the driver beyond its plain description, on the strict fake.

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "device/cuda/gpu_device.hpp"
#include "ppsim/core/lowering/lowering.hpp"
#include "ppsim/gpu_backend/executor/backend_error.hpp"
#include "ppsim/gpu_backend/stage_model/null_model.hpp"
#include "ppsim/schedules/registry.hpp"
#include "support/fake_gpu/run.hpp"
#include "support/fake_gpu/tampered.hpp"
#include "support/host_kernels.hpp"
#include "transformer/gpu/matmul.hpp"

namespace ppsim::test {

using namespace gpu_backend;
namespace {

int multiprocessors_of_parts(const FakeGpuOptions& machine, int parts) {
  FakeGpu gpu(machine);
  const GpuApi api = gpu.api();
  return GpuDevice(api.cuda, 0, parts).multiprocessors_per_part();
}

TEST(GpuDriver, PartsAreOfWholeGroupsAndAsLargeAsFit) {
  EXPECT_EQ(multiprocessors_of_parts({}, 4), 32);
  EXPECT_EQ(multiprocessors_of_parts({}, 3), 40);
  EXPECT_EQ(multiprocessors_of_parts({}, 8), 16);
  // As where a driver makes 15 groups of eight of 132 multiprocessors, one less than division does.
  EXPECT_EQ(multiprocessors_of_parts({.groups = 15}, 4), 24);
  EXPECT_EQ(multiprocessors_of_parts({.groups = 15}, 15), 8);
}

TEST(GpuDriver, MoreRanksThanGroupsDoNotFit) {
  for (const int parts : {16, 200}) {
    try {
      static_cast<void>(multiprocessors_of_parts({.groups = 15}, parts));
      ADD_FAILURE() << parts << " parts of 15 groups";
    } catch (const BackendError& failure) {
      EXPECT_EQ(failure.error().code, ErrorCode::bad_argument);
      EXPECT_NE(failure.error().message.find("do not fit"), std::string::npos) << failure.error().message;
    }
  }
}

/// cuBLASLt counts algorithms among those that it found which its own description says do not hold.
TEST(GpuDriver, AnAlgorithmIsOneOnlyIfItsOwnStatusSaysSo) {
  constexpr int kNotSupported = 15;
  FakeGpu gpu;
  const GpuApi api = gpu.api();
  const GpuDevice device(api.cuda, 0, 1);
  CublasLtTable table = host_cublaslt([](auto&&...) { return 0; });
  const cuda::MatmulShape shape{.left = {kCudaTypeFloat32, 8, 8, 8},
                                .right = {kCudaTypeFloat32, 8, 8, 8},
                                .result = {kCudaTypeFloat32, 8, 8, 8}};
  EXPECT_EQ(cuda::Matmuls(table, api.cuda).plan(shape).suggested.size(), 3U);
  int refused = 1;
  table.choose = [&refused, real = table.choose](cublasLtContext* handle, void* operation, void* a, void* b,
                                                 void* c, void* d, void* preference, int wanted,
                                                 CublasLtChoice* choices, int* found) {
    const int result = real(handle, operation, a, b, c, d, preference, wanted, choices, found);
    for (int i = 0; i < refused; ++i) choices[i].status = kNotSupported;
    return result;
  };
  const auto rest = cuda::Matmuls(table, api.cuda).plan(shape);
  EXPECT_EQ(rest.suggested.size(), 2U);
  EXPECT_EQ(rest.algorithm.data[1], 1U) << "the second of those that were found";
  refused = 3;
  EXPECT_THROW(static_cast<void>(cuda::Matmuls(table, api.cuda).plan(shape)), BackendError);
}

Program two_rank_1f1b() {
  return lower(generate("1f1b", {.ranks = 2, .microbatches = 2}).value(), {}).value();
}

/// A run in which nothing is sent in a step: all wait for ever.
FakeRunOptions without_sends(const std::function<void(GpuApi&)>& more) {
  FakeRunOptions options;
  options.tamper = [more](GpuApi& api) {
    const StepMark mark;
    mark.watch(api);
    api.nccl.send = [mark, real = api.nccl.send](const void* from, std::size_t count, int type, int peer,
                                                 ncclComm* one, CUstream_st* stream) {
      return mark.in_action() ? kNcclSuccess : real(from, count, type, peer, one, stream);
    };
    more(api);
  };
  return options;
}

TEST(GpuDriver, WhatADeviceDoesNotReleaseIsLeftAlone) {
  const Program program = two_rank_1f1b();
  for (const bool stops : {true, false}) {
    FakeGpu gpu(devices_for(program));
    const auto freed = std::make_shared<int>(0);
    const auto options = without_sends([=](GpuApi& api) {
      api.cuda.memory_free = [=, real = api.cuda.memory_free](CudaAddress memory) {
        ++*freed;
        return real(memory);
      };
      if (stops) return;
      // As of a stream with a kernel that never ends: freeing memory would wait for it.
      const auto in_step = std::make_shared<bool>(false);
      api.marks.push = [=, real = api.marks.push](const char* name) {
        *in_step = *in_step || std::string(name) == "PP:step";
        real(name);
      };
      api.cuda.stream_query = [=, real = api.cuda.stream_query](CUstream_st* stream) {
        return *in_step ? kCudaNotReady : real(stream);
      };
    });
    const auto result = run_on_fake(gpu, program, NullModel(), options);
    ASSERT_TRUE(result) << to_string(result.error());
    EXPECT_EQ(result->outcome, RunOutcome::deadlock);
    EXPECT_EQ(*freed > 0, stops);
    EXPECT_EQ(gpu.found(FaultKind::leak), !stops);
  }
}

/// A queue that is full holds whoever adds to it until the device has come further: behind a message that
/// never comes communicators are aborted while the thread is held.
TEST(GpuDriver, AThreadThatIsHeldBehindNcclIsReleasedAfterTheDeadline) {
  const Program program = two_rank_1f1b();
  FakeGpu gpu({.devices = program.pipeline().ranks(), .jumps = false});
  std::atomic<bool> in_step = false;
  std::atomic<bool> aborted = false;
  FakeRunOptions options;
  options.cuda = {.host_threads = true};
  options.deadline_s = 0.1;
  options.tamper = [&](GpuApi& api) {
    api.clock.now = host_clock().now;
    api.marks.push = [&, real = api.marks.push](const char* name) {
      if (std::string(name) == "PP:step") in_step = true;
      real(name);
    };
    api.nccl.communicator_abort = [&, real = api.nccl.communicator_abort](ncclComm* one) {
      aborted = true;
      return real(one);
    };
    api.cuda.event_record = [&, real = api.cuda.event_record](CUevent_st* event, CUstream_st* stream,
                                                              unsigned int flags) {
      while (in_step && !aborted) std::this_thread::yield();
      return real(event, stream, flags);
    };
  };
  const auto result = run_on_fake(gpu, program, NullModel(), options);
  ASSERT_FALSE(result);
  EXPECT_NE(result.error().message.find("within its deadline"), std::string::npos) << result.error().message;
  for (const Fault& fault : gpu.faults()) ADD_FAILURE() << fault;
}

/// Loading a kernel may wait for every stream of the device, those that wait for other ranks among them.
TEST(GpuDriver, NoKernelIsLoadedInsideAStep) {
  LoweringOptions training;
  training.load = training.reduce_grad = training.optimizer = training.clip = true;
  for (const char* schedule : {"1f1b", "chimera", "dualpipe"}) {
    const auto made = generate(schedule, {.ranks = 4, .microbatches = 8});
    ASSERT_TRUE(made) << schedule << to_string(made.error());
    const Program program = lower(*made, training).value();
    for (const bool graphs : {false, true}) {
      FakeGpu gpu(devices_for(program));
      FakeRunOptions options{.cuda = {.transport = CudaTransport::copy, .graphs = graphs}, .steps = 2};
      options.cuda.host_threads = false;
      const auto result = run_on_fake(gpu, program, NullModel(), options);
      ASSERT_TRUE(result) << schedule << to_string(result.error());
      for (const Fault& fault : gpu.faults()) ADD_FAILURE() << schedule << ": " << fault;
    }
  }
}

}  // namespace
}  // namespace ppsim::test
