// Refusals and failures of the executor of streams, on the strict fake.

#include <gtest/gtest.h>

#include <memory>
#include <optional>

#include "executor/gpu/gpu_execute.hpp"
#include "ppsim/core/lowering/lowering.hpp"
#include "ppsim/gpu_backend/stage_model/null_model.hpp"
#include "ppsim/schedules/registry.hpp"
#include "support/fake_gpu/tampered.hpp"
#include "support/linear_model.hpp"
#include "support/programs.hpp"

namespace ppsim::test {

using namespace gpu_backend;
namespace {

Program program_named(const std::string& name, int ranks = 2, int microbatches = 4) {
  return lower(generate(name, {.ranks = ranks, .microbatches = microbatches}).value(), {}).value();
}

/// The message of a run that fails and leaves nothing behind.
std::string failure(const Program& program, FakeGpuOptions gpu_options, const FakeRunOptions& options) {
  FakeGpu gpu(gpu_options);
  const auto result = run_on_fake(gpu, program, NullModel(), options);
  EXPECT_FALSE(gpu.found(FaultKind::leak)) << faults_of(gpu);
  EXPECT_FALSE(gpu.found(FaultKind::double_free)) << faults_of(gpu);
  return result ? "it ran" : result.error().message;
}

TEST(GpuExecute, AFullDeviceIsNamed) {
  const std::string message = failure(program_named("1f1b"), {.devices = 2, .memory = 256}, {});
  EXPECT_EQ(message.rfind("rank 0: allocating ", 0), 0U) << message;
  EXPECT_NE(message.find("CUDA_ERROR_OUT_OF_MEMORY"), std::string::npos) << message;
}

TEST(GpuExecute, TooFewDevicesAreNamed) {
  EXPECT_EQ(failure(program_named("1f1b"), {.devices = 1}, {}),
            "2 ranks, 1 on a device, need 2 devices; there are 1");
}

TEST(GpuExecute, RanksShareADeviceInParts) {
  const Program program = program_named("1f1b", 4, 4);
  FakeGpu gpu({.devices = 1});
  FakeRunOptions options;
  options.cuda.transport = CudaTransport::copy;
  options.cuda.ranks_per_device = 4;
  const auto result = run_on_fake(gpu, program, NullModel(), options);
  ASSERT_TRUE(result) << to_string(result.error());
  EXPECT_TRUE(gpu.faults().empty()) << faults_of(gpu);
  options.cuda.ranks_per_device = 32;
  EXPECT_EQ(failure(program_named("1f1b", 32, 32), {.devices = 1}, options),
            "32 ranks do not fit on a device with 132 multiprocessors");
  options.cuda.transport = CudaTransport::nccl;
  EXPECT_EQ(failure(program, {.devices = 1}, options),
            "NCCL has one rank on a device; several need the copy transport");
}

TEST(GpuExecute, APeerThatNeverConnectsIsNamed) {
  FakeRunOptions options;
  options.tamper = [](GpuApi& api) {
    api.nccl.receive = [](void*, std::size_t, int, int, ncclComm*, CUstream_st*) { return kNcclSuccess; };
  };
  EXPECT_EQ(failure(program_named("1f1b"), {.devices = 2}, options),
            "connecting rank 0 to rank 1 in communicator 0>1: the other ranks do not come");
}

/// Opening six channels one after another takes longer than five minutes, and no contact alone takes two.
TEST(GpuExecute, APeerThatConnectsSlowlyIsWaitedFor) {
  FakeRunOptions options;
  const auto late = std::make_shared<Nanoseconds>(0);
  options.tamper = [late](GpuApi& api) {
    api.clock.now = [late, now = api.clock.now] { return now() + *late; };
    const auto stepping = std::make_shared<bool>(false);
    api.marks.push = [stepping, push = api.marks.push](const char* name) {
      *stepping = *stepping || std::string_view(name) == "PP:step";
      push(name);
    };
    api.nccl.group_end = [late, stepping, end = api.nccl.group_end] {
      constexpr Nanoseconds kContact = 50'000'000'000;
      if (!*stepping) *late += kContact;
      return end();
    };
  };
  FakeGpu gpu({.devices = 4});
  const auto result = run_on_fake(gpu, program_named("1f1b", 4), NullModel(), options);
  ASSERT_TRUE(result) << to_string(result.error());
  EXPECT_GE(*late, 300'000'000'000);
}

TEST(GpuExecute, AnErrorOfTheDeviceNamesTheRank) {
  FakeRunOptions options;
  options.tamper = [](GpuApi& api) {
    auto queries = std::make_shared<int>(0);
    api.cuda.event_query = [queries, query = api.cuda.event_query](CUevent_st* event) {
      constexpr int kUncorrectable = 214;  // CUDA_ERROR_ECC_UNCORRECTABLE
      return ++*queries == 20 ? kUncorrectable : query(event);
    };
  };
  const std::string message = failure(program_named("1f1b"), {.devices = 2}, options);
  EXPECT_EQ(message.rfind("rank ", 0), 0U) << message;
  EXPECT_NE(message.find("the device: CUDA_ERROR"), std::string::npos) << message;
}

/// The message of a run whose device fails for good so long after its step has begun.
std::string failure_after(Nanoseconds time, const CudaOptions& cuda, FakeGpuOptions machine) {
  FakeRunOptions options{.cuda = cuda};
  options.tamper = [time](GpuApi& api) {
    const auto begin = std::make_shared<std::optional<Nanoseconds>>();
    api.marks.push = [begin, now = api.clock.now, push = api.marks.push](const char* name) {
      if (std::string_view(name) == "PP:step") *begin = now();
      push(name);
    };
    api.cuda.event_query = [begin, time, now = api.clock.now,
                            query = api.cuda.event_query](CUevent_st* event) {
      constexpr int kIllegalAddress = 700;
      return *begin && now() >= **begin + time ? kIllegalAddress : query(event);
    };
  };
  return failure(program_named("gpipe"), machine, options);
}

TEST(GpuExecute, AnErrorOfTheDeviceNamesWhatWasInFlightOnIt) {
  // Four F of 1000 ns on rank 0, of which each is sent on in the background.
  const std::string one = failure_after(2'500, {.host_threads = false}, {.devices = 2});
  EXPECT_TRUE(one.starts_with("rank 0: the device: CUDA_ERROR")) << one;
  EXPECT_NE(one.find("; in flight: 0F2"), std::string::npos) << one;
  EXPECT_EQ(one.find("1F"), std::string::npos) << "another device's: " << one;
  const CudaOptions shared{.transport = CudaTransport::copy, .ranks_per_device = 2, .host_threads = false};
  const std::string both = failure_after(2'500, shared, {.devices = 1});
  EXPECT_NE(both.find("; in flight: 0F2"), std::string::npos) << both;
  EXPECT_NE(both.find(", 1F"), std::string::npos) << both;
  const std::string graph = failure_after(2'500, {.graphs = true, .host_threads = false}, {.devices = 2});
  EXPECT_NE(graph.find("; in flight: 0SEND_F"), std::string::npos) << graph;
  EXPECT_EQ(graph.find("0F"), std::string::npos) << "a graph tells nothing of it: " << graph;
}

TEST(GpuExecute, AnErrorOfACommunicatorNamesRankAndCommunicator) {
  FakeRunOptions options;
  options.tamper = [](GpuApi& api) {
    auto steps = std::make_shared<int>(0);
    api.marks.push = [steps, push = api.marks.push](const char* name) {
      if (std::string(name) == "PP:step") ++*steps;
      push(name);
    };
    api.nccl.async_error = [steps, state = api.nccl.async_error](ncclComm* one, int* error) {
      constexpr int kRemoteError = 6;
      const int result = state(one, error);
      if (*steps == 2 && *error == kNcclSuccess) *error = kRemoteError;
      return result;
    };
  };
  options.steps = 3;
  const std::string message = failure(program_named("1f1b"), {.devices = 2}, options);
  EXPECT_EQ(message.rfind("rank ", 0), 0U) << message;
  EXPECT_NE(message.find("NCCL"), std::string::npos) << message;
}

TEST(GpuExecute, AnErrorOfAnActionNamesIt) {
  FakeRunOptions options;
  options.tamper = [](GpuApi& api) {
    const StepMark mark;
    mark.watch(api);
    api.cuda.fill_async = [mark, fill = api.cuda.fill_async](CudaAddress memory, unsigned char value,
                                                             std::size_t bytes, CUstream_st* stream) {
      return mark.in_action("1B0") ? 1 : fill(memory, value, bytes, stream);
    };
  };
  const std::string message = failure(program_named("1f1b"), {.devices = 2}, options);
  EXPECT_EQ(message.rfind("rank 1: 1B0: filling memory: ", 0), 0U) << message;
}

TEST(GpuExecute, AProgramThatBlocksItsHostIsNoGraph) {
  ProgramDraft draft = to_draft(program_named("1f1b"));
  draft.rows[RankId(0)][0].blocking = true;
  const Program program = ProgramBuilder::build(program_named("1f1b").pipeline(), draft).value();
  FakeRunOptions options;
  FakeGpu streamed(devices_for(program));
  EXPECT_EQ(run_on_fake(streamed, program, NullModel(), options).value().outcome, RunOutcome::finished);
  EXPECT_TRUE(streamed.faults().empty()) << faults_of(streamed);
  options.cuda.graphs = true;
  EXPECT_EQ(failure(program, devices_for(program), options),
            "a program with blocking instructions cannot run as a graph");
}

TEST(GpuExecute, AGraphHasNoOrderInOneHardwareQueue) {
  const Program program = program_named("1f1b");
  FakeGpuOptions machine = devices_for(program);
  machine.one_queue = true;
  FakeRunOptions options{.cuda = {.host_threads = false, .one_hardware_queue = true}};
  FakeGpu streamed(machine);
  EXPECT_EQ(run_on_fake(streamed, program, NullModel(), options).value().outcome, RunOutcome::finished);
  EXPECT_TRUE(streamed.faults().empty()) << faults_of(streamed);
  options.cuda.graphs = true;
  FakeGpu captured(machine);
  const auto result = run_on_fake(captured, program, NullModel(), options);
  ASSERT_FALSE(result);
  EXPECT_EQ(
      to_string(result.error()),
      "with one hardware queue nothing tells in which order the branches of a graph enter it (found "
      "CUDA_DEVICE_MAX_CONNECTIONS=1, expected as many as a rank has streams, or a run without graphs)");
}

}  // namespace
}  // namespace ppsim::test
