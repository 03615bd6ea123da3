#include <gtest/gtest.h>

#include "ppsim/core/lowering/lowering.hpp"
#include "ppsim/simulator/metrics/metrics.hpp"
#include "support/closed_forms.hpp"

namespace ppsim {
namespace {

/// Makespan in tenths of a unit of the lowered interleaved 1F1B at p=4, m=16, v=2, where a stage takes F=0.5
/// and B=1 units and a transfer 0.1.
Nanoseconds tenths(int group) {
  const Schedule schedule = test::generated(
      "interleaved-1f1b",
      {.ranks = 4, .microbatches = 16, .chunks = 2, .settings = {{"group", std::to_string(group)}}});
  CostTable costs;
  costs.set({.kind = OpKind::forward}, 5);
  costs.set({.kind = OpKind::backward}, 10);
  costs.set({.kind = OpKind::send_forward}, 1);
  costs.set({.kind = OpKind::send_backward}, 1);
  const Program program = lower(schedule, {.order = IssueOrder::timed}, &costs).value();
  const SimulatedRun run = simulate_program(program, rendezvous(), costs).value();
  return step_times(program, *run).makespan;
}

// The time without latency is m (F + B) + (p - 1)(F + B) / v = 52.5 for every group size (2104.04473,
// section 2.2); what latency adds shrinks with the group: 2 (pv - 1) c for a group of p, down to 2 (p - 1) c.
TEST(GroupSize, LargerGroupsPayLessLatency) {
  EXPECT_EQ(tenths(4), 525 + 14);
  EXPECT_EQ(tenths(6), 525 + 10);
  EXPECT_EQ(tenths(8), 525 + 6);
  EXPECT_EQ(tenths(16), 525 + 6);
}

// The closed form says so: what waits is the first group forward and the last one back, (v - 1)(p - N) chunks
// and p transfers each, and nothing where N is long enough to cover the way round.
TEST(GroupSize, TheClosedFormKnowsTheGroups) {
  const ScheduleInfo& info = **find_schedule("interleaved-1f1b");
  const auto claimed = [&](const char* group, Nanoseconds transfer) {
    return info.forms.makespan({.ranks = 4, .microbatches = 16, .chunks = 2, .settings = {{"group", group}}},
                               {.forward = 5, .backward = 10, .transfer = transfer});
  };
  EXPECT_EQ(claimed("4", 1), 525 + 14);
  EXPECT_EQ(claimed("8", 1), 525 + 6);
  EXPECT_EQ(claimed("16", 1), 525 + 6);
  EXPECT_EQ(claimed("6", 0), 525);
  EXPECT_EQ(claimed("6", 1), std::nullopt) << "groups of 6, 6 and 4";
}

}  // namespace
}  // namespace ppsim
