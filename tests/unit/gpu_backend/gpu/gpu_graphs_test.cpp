// Steps that are captured as CUDA graphs, on the strict fake.

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "device/cuda/gpu_api.hpp"
#include "ppsim/core/lowering/lowering.hpp"
#include "ppsim/gpu_backend/executor/backends.hpp"
#include "ppsim/gpu_backend/stage_model/null_model.hpp"
#include "ppsim/schedules/registry.hpp"
#include "support/fake_gpu/run.hpp"
#include "support/fake_gpu/tampered.hpp"

namespace ppsim::test {

using namespace gpu_backend;
namespace {

Program one_f_one_b_program(int ranks, int microbatches) {
  return lower(generate("1f1b", {.ranks = ranks, .microbatches = microbatches}).value(), {}).value();
}

TEST(GpuGraphs, AGraphHasNoLaunchOrder) {
  const Program program = one_f_one_b_program(2, 2);
  EnvironmentTable environment;
  FakeRunOptions options{.cuda = {.graphs = true, .host_threads = false},
                         .tamper = [&](GpuApi& api) { environment = api.environment; }};
  FakeGpu gpu(devices_for(program));
  ASSERT_TRUE(run_on_fake(gpu, program, NullModel(), options));
  EXPECT_TRUE(gpu.faults().empty()) << faults_of(gpu);
  EXPECT_EQ(environment.get("NCCL_LAUNCH_ORDER_IMPLICIT"), "0");
  options.tamper = [](GpuApi& api) { api.environment.set("NCCL_LAUNCH_ORDER_IMPLICIT", "1"); };
  FakeGpu other(devices_for(program));
  const auto result = run_on_fake(other, program, NullModel(), options);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, ErrorCode::bad_argument);
  EXPECT_EQ(result.error().message,
            "the driver cannot load a graph that has NCCL's launch order (found "
            "NCCL_LAUNCH_ORDER_IMPLICIT=1, expected NCCL_LAUNCH_ORDER_IMPLICIT=0, or unset)");
}

/// NCCL reads the order once, so the second of two runs in other modes cannot have its own.
TEST(GpuGraphs, ARunInAnotherModeThanAnEarlierOneIsToldOfIt) {
  const Program program = one_f_one_b_program(2, 2);
  for (const bool graphs : {false, true}) {
    EnvironmentTable first;
    FakeGpu gpu(devices_for(program));
    FakeRunOptions options{.cuda = {.graphs = graphs, .host_threads = false},
                           .tamper = [&](GpuApi& api) { first = api.environment; }};
    ASSERT_TRUE(run_on_fake(gpu, program, NullModel(), options));
    options.cuda.graphs = !graphs;
    options.tamper = [&](GpuApi& api) { api.environment = first; };
    FakeGpu other(devices_for(program));
    const auto result = run_on_fake(other, program, NullModel(), options);
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().message,
              std::string("NCCL reads its launch order once in a process, and an earlier run in this one ") +
                  (graphs ? "had graphs: streamed runs" : "was streamed: runs with graphs") +
                  " need a process of their own");
  }
}

TEST(GpuGraphs, AGraphIsProvedWithoutALaunchOrder) {
  const TransportCapabilities streamed = capabilities_of({.backend = CudaOptions{}});
  EXPECT_EQ(streamed.guaranteed_launches.order, LaunchOrder::start);
  const TransportCapabilities graph = capabilities_of({.backend = CudaOptions{.graphs = true}});
  EXPECT_EQ(graph.launches, decltype(graph.launches){});
  EXPECT_EQ(graph.guaranteed_launches, graph.launches);
  EXPECT_TRUE(graph.eager);
}

TEST(GpuGraphs, AGraphHasTheBlocksThatItAsksFor) {
  const Program program = one_f_one_b_program(2, 2);
  FakeRunOptions options{.cuda = {.graphs = true, .host_threads = false}};
  options.tamper = [](GpuApi& api) { api.environment.set("NCCL_MIN_CTAS", "32"); };
  FakeGpu gpu(devices_for(program));
  const auto result = run_on_fake(gpu, program, NullModel(), options);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().message,
            "in a graph the kernels of all communicators need room at once (found NCCL_MIN_CTAS=32, expected "
            "NCCL_MIN_CTAS unset, or a run without graphs)");
}

TEST(GpuGraphs, AGraphNeedsRoomForTheKernelsOfAllCommunicators) {
  // The middle rank sends and receives both ways: four communicators of four blocks each.
  const Program program = one_f_one_b_program(3, 3);
  const auto run_on = [&](int multiprocessors, bool graphs) {
    FakeGpuOptions devices = devices_for(program);
    devices.multiprocessors = multiprocessors;
    FakeGpu gpu(devices);
    const auto result =
        run_on_fake(gpu, program, NullModel(), {.cuda = {.graphs = graphs, .host_threads = false}});
    return result ? "" : result.error().message;
  };
  EXPECT_EQ(run_on(16, true), "");
  EXPECT_EQ(run_on(15, true),
            "rank 1: in a graph the kernels of all its communicators need room at once (found 15 "
            "multiprocessors, expected at least 16, or a run without graphs)");
  EXPECT_EQ(run_on(15, false), "");
}

/// A rank's captured work may wait for that of another rank of the process.
TEST(GpuGraphs, GraphsAreCapturedInterleavedOverTheRanks) {
  const Program program = one_f_one_b_program(2, 4);
  std::string order;
  bool captures = false;
  FakeRunOptions options{.cuda = {.graphs = true, .host_threads = false}};
  options.tamper = [&](GpuApi& api) {
    api.cuda.capture_begin = [&, real = api.cuda.capture_begin](CUstream_st* stream, int mode) {
      captures = true;
      order += "(";
      return real(stream, mode);
    };
    api.cuda.capture_end = [&, real = api.cuda.capture_end](CUstream_st* stream, CUgraph_st** graph) {
      captures = false;
      order += ")";
      return real(stream, graph);
    };
    api.marks.push = [&, real = api.marks.push](const char* name) {
      if (captures) order += std::string(name).substr(3, 1);
      real(name);
    };
  };
  FakeGpu gpu(devices_for(program));
  ASSERT_TRUE(run_on_fake(gpu, program, NullModel(), options));
  for (const Fault& fault : gpu.faults()) ADD_FAILURE() << fault;
  EXPECT_TRUE(order.starts_with("((0101")) << order;
  EXPECT_TRUE(order.ends_with("))")) << order;
}

/// Copies between ranks are edges of a graph that has the steps of all.
TEST(GpuGraphs, CopiesAreCapturedInOneGraph) {
  const Program program = one_f_one_b_program(3, 4);
  for (const bool threads : {false, true}) {
    int captures = 0;
    int launches = 0;
    FakeRunOptions options{
        .cuda = {.transport = CudaTransport::copy, .graphs = true, .host_threads = threads}, .steps = 3};
    options.tamper = [&](GpuApi& api) {
      api.cuda.capture_begin = [&, real = api.cuda.capture_begin](CUstream_st* stream, int mode) {
        ++captures;
        return real(stream, mode);
      };
      api.cuda.graph_launch = [&, real = api.cuda.graph_launch](CUgraphExec_st* graph, CUstream_st* stream) {
        ++launches;
        return real(graph, stream);
      };
    };
    FakeGpu gpu(devices_for(program));
    const auto result = run_on_fake(gpu, program, NullModel(), options);
    ASSERT_TRUE(result) << to_string(result.error());
    for (const Fault& fault : gpu.faults()) ADD_FAILURE() << fault;
    EXPECT_EQ(captures, 1);
    EXPECT_EQ(launches, options.steps);
    for (const Span& span : result->trace().spans) EXPECT_GE(span.start.time, 0);
  }
}

TEST(GpuGraphs, ACaptureHasADeadline) {
  const Program program = one_f_one_b_program(2, 4);
  FakeGpu gpu({.devices = 2, .jumps = false});
  FakeRunOptions options{.cuda = {.graphs = true, .host_threads = true}, .deadline_s = 0.1};
  std::atomic<int> aborted = 0;
  std::atomic<bool> captures = false;
  options.tamper = [&](GpuApi& api) {
    api.clock.now = host_clock().now;
    api.cuda.capture_begin = [&, real = api.cuda.capture_begin](CUstream_st* stream, int mode) {
      captures = true;
      return real(stream, mode);
    };
    api.nccl.communicator_abort = [&, real = api.nccl.communicator_abort](ncclComm* one) {
      ++aborted;
      return real(one);
    };
    // Each waits for the end of all communicators, its own one among them.
    api.nccl.group_end = [&, real = api.nccl.group_end] {
      while (captures && aborted < 4) std::this_thread::yield();
      return real();
    };
  };
  const auto result = run_on_fake(gpu, program, NullModel(), options);
  ASSERT_FALSE(result);
  EXPECT_NE(result.error().message.find("capturing a step"), std::string::npos) << result.error().message;
  EXPECT_FALSE(gpu.found(FaultKind::leak));
}

}  // namespace
}  // namespace ppsim::test
