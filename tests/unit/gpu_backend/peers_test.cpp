// How processes, which are threads here, meet before and after the steps of a run, and part.

#include "processes/peers.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "cuda/gpu_execute.hpp"
#include "ppsim/core/lowering.hpp"
#include "ppsim/gpu_backend/null_model.hpp"
#include "ppsim/schedules/registry.hpp"
#include "support/fake_gpu/run.hpp"
#include "support/linear_model.hpp"

namespace ppsim::test {
namespace {

using namespace std::chrono_literals;

Program one_rank_on_each(int processes) {
  return lower(generate("1f1b", {.ranks = processes, .microbatches = 2 * processes}).value(), {}).value();
}

TEST(Peers, WhoIsDoneLeavesNotBeforeProcess0HasTheResultOfAll) {
  constexpr int kProcesses = 3;
  const Program program = one_rank_on_each(kProcesses);
  auto ends = in_process_bootstraps(kProcesses).value();
  FakeGpu gpu({.devices = kProcesses, .jumps = false});
  std::vector<Expected<RunResult>> results(kProcesses);
  {
    std::vector<std::jthread> threads;
    for (std::size_t p = 0; p < kProcesses; ++p) {
      threads.emplace_back([&, p] {
        FakeRunOptions options{.processes = ends[p].get()};
        options.tamper = [p](GpuApi& api) {
          api.clock.now = host_clock().now;
          if (p < 2) return;
          api.cuda.event_query = [query = api.cuda.event_query](CUevent_st* event) {
            std::this_thread::sleep_for(5ms);  // and so the others have its result late
            return query(event);
          };
        };
        results[p] = run_on_fake(gpu, program, NullModel(), options);
        if (p == 1) ends[p].reset();  // the end of a process
      });
    }
  }
  for (const auto& result : results) EXPECT_TRUE(result) << to_string(result.error());
}

TEST(Peers, WhoDoesNotComeToAgreeIsNamed) {
  const Program program = one_rank_on_each(2);
  const auto ends = in_process_bootstraps(2).value();
  RunOptions options = unverified();
  options.processes = ends[0].get();
  options.deadline_s = 0;
  options.deadline_rule.meeting_s = 0.2;
  const auto result = execute(program, NullModel(), options);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, ErrorCode::io);
  EXPECT_EQ(result.error().message.rfind("process 1 did not come where all processes meet", 0), 0U)
      << result.error().message;
}

}  // namespace
}  // namespace ppsim::test
