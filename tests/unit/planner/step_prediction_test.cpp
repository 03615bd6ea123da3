#include "step_prediction.hpp"

#include <gtest/gtest.h>

#include "support/programs.hpp"
#include "support/timing.hpp"

namespace ppsim {

using namespace planner;
namespace {

using enum OpKind;

/// Three steps of `program` whose instructions were not timed, as a GPU run without `profile` leaves them.
VerifiedRun untimed(const Program& program) {
  VerifiedRun run;
  const TimedTrace::Spans spans(program.size(), Span{{-1, 0}, {-1, 0}});
  run.run.traces.assign(3, TimedTrace{.spans = spans});
  run.run.step_ns = {900, 70, 80};
  return run;
}

TEST(StepPrediction, WithoutTimesNothingIsSimulatedButTheMedianStepIsMeasured) {
  const Program program = test::two_rank_step();
  VerifiedRun run = untimed(program);
  ASSERT_TRUE(predict_steps({program, rendezvous()}, {}, run));
  EXPECT_EQ(run.measured_step_ns, 80);
  EXPECT_EQ(run.predicted_steps, 3U);
  EXPECT_FALSE(run.simulated_step_ns);
  EXPECT_FALSE(run.repeated_step_ns);
  EXPECT_TRUE(run.measured.spreads.empty());
}

TEST(StepPrediction, GivenCostsSimulateAStepWithoutTimes) {
  const Program program = test::two_rank_step();
  const CostTable costs = test::cost_table(
      {{forward, -1, 10}, {backward, -1, 20}, {send_forward, -1, 3}, {send_backward, -1, 4}});
  VerifiedRun run = untimed(program);
  ASSERT_TRUE(predict_steps({program, rendezvous()}, {.costs = &costs}, run));
  EXPECT_EQ(run.measured_step_ns, 80);
  EXPECT_EQ(run.simulated_step_ns, 67);
  EXPECT_FALSE(run.repeated_step_ns);
}

}  // namespace
}  // namespace ppsim
