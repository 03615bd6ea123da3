#include "ppsim/planner/prediction.hpp"

#include <gtest/gtest.h>

#include "ppsim/gpu_backend/stage_model/null_model.hpp"
#include "ppsim/planner/effects/cost_groups.hpp"
#include "ppsim/planner/effects/slowed_step.hpp"
#include "support/programs.hpp"

namespace ppsim {
namespace {

using enum OpKind;

constexpr Nanoseconds kUnit = 1'000'000;

CostTable predicted_costs() {
  CostTable costs;
  for (const int stage : {0, 1}) {
    costs.set({forward, stage, -1, 0}, kUnit);
    costs.set({backward, stage, -1, 0}, 2 * kUnit);
  }
  costs.set({send_forward, 0, 1, 0}, kUnit);
  costs.set({send_backward, 1, 0, 0}, kUnit);
  return costs;
}

TEST(Prediction, IsTheSimulatedStepBesideTheMedianOne) {
  const Program program = test::two_rank_step();
  const RunOptions run{.backend = EmulatedOptions{predicted_costs()}, .steps = 3};
  const auto found = predict({program, run.capabilities}, NullModel(), run, {predicted_costs()});
  ASSERT_TRUE(found) << to_string(found.error());
  EXPECT_EQ(found->step_ns.size(), 3U);
  // F, a transfer, F, B, a transfer, B; two ranks of it are busy for 6 of 16.
  EXPECT_EQ(found->simulated_step_ns, 8 * kUnit);
  EXPECT_DOUBLE_EQ(found->simulated_bubble, 1 - 6.0 / 16);
  EXPECT_GE(found->measured_step_ns, found->simulated_step_ns);
  EXPECT_LE(found->step_error(), 0);
  EXPECT_LT(found->measured_bubble, 1);
  EXPECT_EQ(found->bubble_error(), found->simulated_bubble - found->measured_bubble);
}

TEST(Prediction, NeedsTheCostsOfEveryAction) {
  const CostTable costs = predicted_costs();
  const Program program = test::two_rank_step();
  const RunOptions run{.backend = EmulatedOptions{costs}};
  for (const auto& [left_out, ignored] : costs.entries()) {
    CostTable others;
    for (const auto& [key, cost] : costs.entries()) {
      if (key != left_out) others.set(key, cost);
    }
    const auto found = predict({program, run.capabilities}, NullModel(), run, {others});
    ASSERT_FALSE(found);
    EXPECT_EQ(found.error().code, ErrorCode::bad_argument);
    EXPECT_TRUE(found.error().place.found.starts_with("no cost of " + std::string(info(left_out.kind).text) +
                                                      " of stage " + std::to_string(left_out.subject)));
  }
}

TEST(Prediction, AStepThatIsPredictedTooShortHasAnErrorBelowZero) {
  EXPECT_DOUBLE_EQ((Prediction{.measured_step_ns = 200, .simulated_step_ns = 190}.step_error()), -0.05);
  EXPECT_DOUBLE_EQ((Prediction{.measured_step_ns = 200, .simulated_step_ns = 230}.step_error()), 0.15);
  EXPECT_EQ(Prediction().step_error(), 0);
}

/// A large Program would take its time and its memory twice.
TEST(SlowDown, SimulatesAStepAgainOnlyWhereSomethingIsSlowedDown) {
  CostBinding costs;
  costs.tables.costs = predicted_costs();
  auto step = evaluate("two ranks", test::two_rank_step(), std::move(costs));
  ASSERT_TRUE(step) << to_string(step.error());
  const Span forward_of_rank_0 = step->trace.spans[InstructionId(0)];
  step->trace.spans[InstructionId(0)].start.time = -7;  // which no simulation gives
  const TimedTrace marked = step->trace;
  SharedDevices devices{.ranks = 2, .slowdowns = {{forward, 0}, {backward, 0}}};
  ASSERT_TRUE(slow_down(*step, devices));
  EXPECT_EQ(step->trace, marked);
  devices.own_transfers = SharedDevices::kWhole;
  ASSERT_TRUE(slow_down(*step, devices));
  const Span& slowed = step->trace.spans[InstructionId(0)];
  EXPECT_EQ(slowed.start, forward_of_rank_0.start);
  EXPECT_GT(slowed.end, forward_of_rank_0.end);  // the RECV_B of its rank waits beside it
}

/// Its times are not those of its costs, so nothing that takes them for longest paths may use them.
TEST(SlowDown, LeavesAStepWithoutLongestPaths) {
  CostBinding costs;
  costs.tables.costs = predicted_costs();
  auto step = evaluate("two ranks", test::two_rank_step(), std::move(costs));
  ASSERT_TRUE(step) << to_string(step.error());
  EXPECT_TRUE(priced_items(*step));
  SharedDevices devices{.ranks = 2, .slowdowns = {}};
  devices.own_transfers = SharedDevices::kWhole;
  ASSERT_TRUE(slow_down(*step, devices));
  const auto refused = priced_items(*step);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message, "where actions slow each other down, times are no longest paths");
}

TEST(Summarize, TakesAbsoluteErrors) {
  std::vector<double> errors;
  for (int i = 1; i <= 20; ++i) errors.push_back(i % 2 == 0 ? i : -i);
  EXPECT_EQ(summarize(errors), (ErrorSummary{10.5, 19, 20}));  // the mean of both in the middle
  EXPECT_EQ(summarize({-1, 4}), (ErrorSummary{2.5, 4, 4}));
  EXPECT_EQ(summarize({-3}), (ErrorSummary{3, 3, 3}));
  EXPECT_EQ(summarize({}), ErrorSummary());
}

}  // namespace
}  // namespace ppsim
