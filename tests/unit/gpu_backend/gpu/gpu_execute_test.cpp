// The executor of streams on the strict fake: outcomes, traces, and what it leaves behind.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "executor/gpu/gpu_execute.hpp"
#include "ppsim/core/lowering/lowering.hpp"
#include "ppsim/gpu_backend/executor/measured_costs.hpp"
#include "ppsim/gpu_backend/stage_model/null_model.hpp"
#include "ppsim/schedules/registry.hpp"
#include "support/fake_gpu/tampered.hpp"
#include "support/linear_model.hpp"
#include "support/programs.hpp"

namespace ppsim::test {

using namespace gpu_backend;
namespace {

Program schedule_program(const std::string& name, int ranks = 2, int microbatches = 4) {
  return lower(generate(name, {.ranks = ranks, .microbatches = microbatches}).value(), {}).value();
}

std::string hang_of(const RunResult& result) {
  std::string text;
  for (const Wait& wait : result.hang) text += to_string(wait) + "\n";
  return text;
}

TEST(GpuExecute, ADeadlockIsReportedAsOnTheCpu) {
  const Program program = deferred_receives(false);
  RunOptions on_cpu;
  on_cpu.unverified = true;
  const RunResult expected = execute(program, NullModel(), on_cpu).value();
  ASSERT_EQ(expected.outcome, RunOutcome::deadlock);
  FakeGpu gpu(devices_for(program));
  const auto result = run_on_fake(gpu, program, NullModel());
  ASSERT_TRUE(result) << to_string(result.error());
  EXPECT_EQ(result->outcome, RunOutcome::deadlock);
  EXPECT_EQ(hang_of(*result), hang_of(expected));
  EXPECT_TRUE(gpu.faults().empty()) << faults_of(gpu);
  EXPECT_FALSE(gpu.stuck_at_jump().empty());
}

TEST(GpuExecute, ADeadlockOfCopiesIsReportedLikewise) {
  const Program program = deferred_receives(false);
  RunOptions on_cpu;
  on_cpu.unverified = true;
  const RunResult expected = execute(program, NullModel(), on_cpu).value();
  FakeGpu gpu(devices_for(program));
  FakeRunOptions options;
  options.cuda.transport = CudaTransport::copy;
  const auto result = run_on_fake(gpu, program, NullModel(), options);
  ASSERT_TRUE(result) << to_string(result.error());
  EXPECT_EQ(result->outcome, RunOutcome::deadlock);
  EXPECT_EQ(hang_of(*result), hang_of(expected));
  EXPECT_TRUE(gpu.faults().empty()) << faults_of(gpu);
}

/// A message that is never sent: the report of the run that hangs for it.
std::string hang_without(const std::string& send, const CudaOptions& cuda) {
  const Program program = schedule_program("zb-h1", 3, 4);
  FakeGpu gpu(devices_for(program));
  FakeRunOptions options{.cuda = cuda};
  options.tamper = [send](GpuApi& api) {
    const auto open = std::make_shared<std::string>();
    api.marks.push = [open, push = api.marks.push](const char* name) {
      *open = name;
      push(name);
    };
    api.nccl.send = [=, real = api.nccl.send](const void* from, std::size_t count, int type, int peer,
                                              ncclComm* one, CUstream_st* stream) {
      return *open == "PP:" + send ? kNcclSuccess : real(from, count, type, peer, one, stream);
    };
  };
  const auto result = run_on_fake(gpu, program, NullModel(), options);
  if (!result) return to_string(result.error());
  EXPECT_EQ(result->outcome, RunOutcome::deadlock);
  for (const FaultKind kind : {FaultKind::leak, FaultKind::bad_call, FaultKind::bad_capture})
    EXPECT_FALSE(gpu.found(kind)) << faults_of(gpu);
  return hang_of(*result);
}

/// The lines of a report that are not about the launch order, which a graph does not have.
std::vector<std::string> lines_beside_launches(const std::string& report) {
  std::vector<std::string> lines;
  std::istringstream text(report);
  for (std::string line; std::getline(text, line);) {
    if (line.find("(is launched after") == std::string::npos) lines.push_back(line);
  }
  return lines;
}

TEST(GpuExecute, AGraphThatHangsSaysWhatItWaitsForAsAStreamedStepDoes) {
  for (const char* send : {"0SEND_F1", "1SEND_F3", "2SEND_B0", "1SEND_B2"}) {
    const std::string streamed = hang_without(send, {.host_threads = false});
    EXPECT_NE(streamed.find(" waits for rank "), std::string::npos) << streamed;
    const std::string graph = hang_without(send, {.graphs = true, .host_threads = false});
    EXPECT_EQ(graph.find("is launched after"), std::string::npos) << graph;
    for (const std::string& line : lines_beside_launches(streamed))
      EXPECT_NE(graph.find(line + "\n"), std::string::npos) << line << "\nis not in\n" << graph;
    EXPECT_EQ(hang_without(send, {.graphs = true, .profile = false, .host_threads = false}), graph);
  }
}

TEST(GpuExecute, TheTraceOfAStepIsThatOfVirtualTime) {
  constexpr Nanoseconds kForward = 1000;
  const Program program = schedule_program("gpipe", 1, 2);
  FakeGpu gpu(devices_for(program));
  FakeRunOptions options;
  options.duration = [](const Action& a) { return a.kind == OpKind::backward ? 2 * kForward : kForward; };
  const RunResult result = run_on_fake(gpu, program, NullModel(), options).value();
  // On one rank: F F B B, without anything between them.
  EXPECT_EQ(result.step_ns, std::vector<Nanoseconds>{6 * kForward});
  const TimedTrace& trace = result.trace();
  EXPECT_EQ(trace.spans[InstructionId(0)], (Span{{0, 0}, {kForward, 0}}));
  EXPECT_EQ(trace.spans[InstructionId(3)], (Span{{4 * kForward, 0}, {6 * kForward, 0}}));
}

TEST(GpuExecute, WithoutProfilingNothingIsOnTheClockButTheStep) {
  const Program program = schedule_program("1f1b");
  FakeGpu gpu(devices_for(program));
  FakeRunOptions options;
  options.cuda.profile = false;
  const RunResult result = run_on_fake(gpu, program, NullModel(), options).value();
  EXPECT_TRUE(gpu.faults().empty()) << faults_of(gpu);
  EXPECT_EQ(result.trace().spans[InstructionId(0)], (Span{{-1, 0}, {-1, 0}}));
  EXPECT_GT(result.step_ns.front(), 0);
}

TEST(GpuExecute, CountsWhatTheHostEnqueues) {
  const Program program = schedule_program("1f1b");
  for (const bool graphs : {false, true}) {
    FakeGpu gpu(devices_for(program));
    FakeRunOptions options;
    options.cuda.transport = CudaTransport::copy;
    options.cuda.graphs = graphs;
    options.steps = 3;
    // Every look at the clock takes a nanosecond.
    options.tamper = [](GpuApi& api) {
      auto looks = std::make_shared<Nanoseconds>(0);
      api.clock.now = [looks, now = api.clock.now] { return now() + ++*looks; };
    };
    const HostTime host = run_on_fake(gpu, program, NullModel(), options).value().host;
    EXPECT_EQ(host.actions, 3 * static_cast<std::int64_t>(program.all_actions().size()));
    EXPECT_GT(host.issue_ns, host.work_ns);
    EXPECT_EQ(host.work_ns > 0, !graphs);
  }
}

/// How often the thread that calls it has done so.
int calls_of_this_thread() {
  thread_local int calls = 0;
  return ++calls;
}

TEST(GpuExecute, EveryStepIsEnqueuedByTheThreadsOfTheFirst) {
  const auto main = std::this_thread::get_id();
  for (const bool graphs : {false, true}) {
    std::atomic<int> most = 0;
    const auto note = [&] {
      if (std::this_thread::get_id() != main) most = std::max(most.load(), calls_of_this_thread());
    };
    FakeRunOptions options{.cuda = {.graphs = graphs, .host_threads = true}, .steps = 3};
    options.tamper = [&](GpuApi& api) {
      api.cuda.graph_launch = [=, launch = api.cuda.graph_launch](CUgraphExec_st* graph,
                                                                  CUstream_st* stream) {
        note();
        return launch(graph, stream);
      };
      if (graphs) return;
      api.marks.push = [=, push = api.marks.push](const char* name) {
        if (std::string_view(name) == "PP:1F0") note();
        push(name);
      };
    };
    FakeGpu gpu({.devices = 2, .jumps = false});
    const auto result = run_on_fake(gpu, schedule_program("1f1b"), NullModel(), options);
    ASSERT_TRUE(result) << to_string(result.error());
    EXPECT_TRUE(gpu.faults().empty()) << faults_of(gpu);
    EXPECT_EQ(most, options.steps) << (graphs ? "graphs" : "streamed");
  }
}

TEST(GpuExecute, LaunchesEveryKernelBeforeTheFirstStep) {
  const Program program = schedule_program("zb-h1");
  using Kernels = std::set<std::pair<OpKind, std::int32_t>>;
  Kernels all;
  for (const Action& action : program.all_actions()) {
    if (!is_communication(action.kind)) all.emplace(action.kind, action.subject);
  }
  const auto stepping = std::make_shared<bool>(false);
  const auto launched = std::make_shared<Kernels>();
  FakeRunOptions options;
  options.duration = [=](const Action& action) {
    if (!*stepping && action.kind != OpKind::load) launched->emplace(action.kind, action.subject);
    return Nanoseconds{1000};
  };
  options.tamper = [=](GpuApi& api) {
    api.marks.push = [=, push = api.marks.push](const char* name) {
      *stepping = *stepping || std::string_view(name) == "PP:step";
      push(name);
    };
  };
  FakeGpu gpu(devices_for(program));
  ASSERT_TRUE(run_on_fake(gpu, program, LinearModel(), options));
  EXPECT_EQ(*launched, all);
  EXPECT_TRUE(gpu.faults().empty()) << faults_of(gpu);
}

TEST(GpuExecute, HandsOutNoGradientsThatNobodyAskedFor) {
  const Program program = schedule_program("1f1b");
  FakeGpu gpu(devices_for(program));
  auto pinned = std::make_shared<int>(0);
  FakeRunOptions options;
  options.gradients = false;
  options.tamper = [pinned](GpuApi& api) {
    api.cuda.host_allocate = [pinned, allocate = api.cuda.host_allocate](void** memory, std::size_t bytes,
                                                                         unsigned int flags) {
      ++*pinned;
      return allocate(memory, bytes, flags);
    };
  };
  EXPECT_TRUE(run_on_fake(gpu, program, LinearModel(), options).value().gradients.empty());
  EXPECT_EQ(*pinned, 0);
  EXPECT_TRUE(gpu.faults().empty()) << faults_of(gpu);
}

}  // namespace
}  // namespace ppsim::test
