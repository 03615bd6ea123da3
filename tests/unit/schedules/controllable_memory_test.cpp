#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "support/closed_forms.hpp"

// V-Half and V-Min of Qi et al., Pipeline parallelism with controllable memory (arXiv 2405.15362): figures of
// the authors' own reordering, where F, I and W of a chunk take one unit and transfers no time.

namespace ppsim {
namespace {

using test::generated;
using test::step_time;

constexpr int kLargestRanks = 16;

StageCosts even_costs(Nanoseconds unit) {
  return {.forward = unit, .backward = 2 * unit, .backward_input = unit, .backward_weight = unit};
}

/// Bubble of the span over the span, to four decimals.
double rate(std::string_view name, int ranks, int microbatches) {
  const Schedule schedule = generated(name, {.ranks = ranks, .microbatches = microbatches});
  const auto span = static_cast<double>(step_time(schedule, test::cost_table(even_costs(1))).span);
  return std::round((span - 6 * microbatches) / span * 1e4) / 1e4;
}

TEST(ControllableMemory, BubblesOfTheTable) {
  EXPECT_DOUBLE_EQ(rate("v-half", 4, 8), 0.0943);
  EXPECT_DOUBLE_EQ(rate("v-half", 4, 32), 0.0254);
  EXPECT_DOUBLE_EQ(rate("v-half", 8, 32), 0.0813);
  EXPECT_DOUBLE_EQ(rate("v-min", 4, 8), 0.1864);
  EXPECT_DOUBLE_EQ(rate("v-min", 4, 32), 0.0542);
  EXPECT_DOUBLE_EQ(rate("v-min", 8, 32), 0.1233);
}

/// Expects the span by the form, the earliest times and, for few ranks, a simulated run.
void expect_span(std::string_view name, const ScheduleParameters& parameters, Nanoseconds bubble) {
  const StageCosts costs = even_costs(7);
  const Nanoseconds span = 7 * (6 * parameters.microbatches + bubble);
  const auto form = (*find_schedule(name))->forms.span(parameters, costs);
  ASSERT_TRUE(form.has_value()) << name << ' ' << parameters;
  EXPECT_EQ(*form, span) << name << ' ' << parameters;
  const Schedule schedule = generated(name, parameters);
  const CostTable table = test::cost_table(costs);
  EXPECT_EQ(step_time(schedule, table).span, span) << name << ' ' << parameters;
  if (parameters.ranks > 6) return;
  EXPECT_EQ(test::simulated_step_time(schedule, {.order = IssueOrder::timed}, table).span, span)
      << name << ' ' << parameters;
}

int v_half_bubble(int p) { return p == 2 ? 1 : 3 * p - (p % 2 == 0 ? 7 : 4); }
int v_min_bubble(int p) { return 4 * p - (p % 3 == 0 ? 7 : 5); }

TEST(ControllableMemory, SpansDoNotDependOnTheMicrobatches) {
  for (int p = 2; p <= kLargestRanks; ++p) {
    for (const int m : {2 * p, 2 * p + 1, 3 * p + 2}) {
      expect_span("v-half", {.ranks = p, .microbatches = m}, v_half_bubble(p));
      expect_span("v-min", {.ranks = p, .microbatches = m}, v_min_bubble(p));
    }
  }
}

TEST(ControllableMemory, SpansAreClaimedUnderTheirConditionsOnly) {
  for (const std::string_view name : {"v-half", "v-min"}) {
    const auto span = (*find_schedule(name))->forms.span;
    StageCosts costs = even_costs(3);
    EXPECT_FALSE(span({.ranks = 4, .microbatches = 7}, costs));
    costs.transfer = 1;
    EXPECT_FALSE(span({.ranks = 4, .microbatches = 8}, costs));
    costs = even_costs(3);
    costs.backward_weight = 2;
    EXPECT_FALSE(span({.ranks = 4, .microbatches = 8}, costs));
  }
}

/// Expects the peak over the ranks, by the orders and by the form.
void expect_peak(std::string_view name, const ScheduleParameters& parameters, int expected) {
  const auto form = (*find_schedule(name))->forms.peak_live_activations;
  const Schedule schedule = generated(name, parameters);
  int peak = 0;
  for (int r = 0; r < parameters.ranks; ++r) {
    const int found = test::peak_live_activations(schedule, RankId(r));
    EXPECT_EQ(form(parameters, RankId(r)), found) << name << ' ' << parameters << " rank " << r;
    peak = std::max(peak, found);
  }
  EXPECT_EQ(peak, expected) << name << ' ' << parameters;
}

// In half-stages: 1F1B holds 2p of them.
TEST(ControllableMemory, Peaks) {
  for (int p = 2; p <= kLargestRanks; ++p) {
    expect_peak("v-half", {.ranks = p, .microbatches = 2 * p}, 2 * ((p + 2) / 2));
    expect_peak("v-min", {.ranks = p, .microbatches = 2 * p + 3}, 2 * ((p + 4) / 3));
  }
  for (int m = 1; m < 9; ++m) {
    expect_peak("v-half", {.ranks = 8, .microbatches = m}, std::min(2 * m, 10));
  }
}

// Idle units of the authors' code (v1f1b.py) at F = 1, B = 2, by ranks from 2 on.
TEST(ControllableMemory, WholeBackwardsIdleAsTheAuthors) {
  constexpr int kIdle[] = {4, 8, 15, 18, 22, 30, 33, 36, 45, 48, 52, 60, 63, 67, 75};
  const ClosedForms& forms = (*find_schedule("1f1b-v"))->forms;
  int p = 2;
  for (const int idle : kIdle) {
    for (const int m : {2 * p, 3 * p}) {
      const ScheduleParameters parameters{.ranks = p, .microbatches = m};
      const test::StepTime time = step_time(generated("1f1b-v", parameters), unit_cost_table({}));
      EXPECT_EQ(time.span, kUnitTime * (6 * m + idle)) << parameters;
      EXPECT_EQ(time.makespan, kUnitTime * (6 * m + idle)) << parameters;
      EXPECT_EQ(forms.span(parameters, {}), 6 * m + idle) << parameters;
      EXPECT_EQ(forms.makespan(parameters, {}), 6 * m + idle) << parameters;
    }
    ++p;
  }
}

// Two thirds of the 2p half-stages of 1F1B, rounded up to pairs.
TEST(ControllableMemory, WholeBackwardsHoldTwoThirds) {
  for (int p = 1; p <= kLargestRanks; ++p) {
    expect_peak("1f1b-v", {.ranks = p, .microbatches = 2 * p}, 2 * ((2 * p + 3) / 3));
  }
}

}  // namespace
}  // namespace ppsim
