#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "support/closed_forms.hpp"

// The adaptive scheduler of Qi et al., Pipeline parallelism with controllable memory (arXiv 2405.15362),
// beside the figures of its authors' code (v_auto_schedule.py). Bubbles are of the span.

namespace ppsim {
namespace {

using test::generated;
using test::step_time;

ScheduleParameters within(int ranks, int microbatches, int limit) {
  return {
      .ranks = ranks, .microbatches = microbatches, .settings = {{"memory_limit", std::to_string(limit)}}};
}

/// Bubble over span of an order that was made for the costs.
double rate(ScheduleParameters parameters, const StageCosts& costs) {
  parameters.costs = test::cost_table(costs);
  const Schedule schedule = generated("v-adaptive", parameters);
  const auto span = static_cast<double>(step_time(schedule, *parameters.costs).span);
  const auto busy = static_cast<double>(2 * parameters.microbatches *
                                        (costs.forward + costs.backward_input + costs.backward_weight));
  return (span - busy) / span;
}

double rounded(double value) { return std::round(value * 1e4) / 1e4; }

TEST(VAdaptive, BubblesOfTheAuthorsCode) {
  const StageCosts even = {.forward = 1, .backward_input = 1, .backward_weight = 1};
  EXPECT_DOUBLE_EQ(rounded(rate(within(4, 8, 4), even)), 0.1864);
  EXPECT_DOUBLE_EQ(rounded(rate(within(4, 8, 6), even)), 0.0943);
  EXPECT_DOUBLE_EQ(rounded(rate(within(4, 8, 8), even)), 0);
  EXPECT_DOUBLE_EQ(rounded(rate({.ranks = 4, .microbatches = 8}, even)), 0);
}

// The authors' code has the same bubble at each of these limits, computed for p = 4, 6 and 8.
TEST(VAdaptive, SpanIsTheClosedFormAtEveryLimit) {
  const StageCosts costs = {.forward = kUnitTime, .backward_input = kUnitTime, .backward_weight = kUnitTime};
  const auto form = (*find_schedule("v-adaptive"))->forms.span;
  for (int p = 1; p <= 9; ++p) {
    for (int limit = (p + 4) / 3 * 2; limit <= 2 * p; ++limit) {
      for (const int m : {2 * p - 1, 2 * p, 4 * p + 5}) {
        const ScheduleParameters parameters = within(p, m, limit);
        const int idle = limit == 2 * p - 1 ? 3 : std::max(0, 6 * p - 1 - 3 * limit);
        ASSERT_EQ(form(parameters, costs), kUnitTime * (6 * m + idle)) << parameters;
        EXPECT_EQ(step_time(generated("v-adaptive", parameters), unit_cost_table({})).span,
                  kUnitTime * (6 * m + idle))
            << parameters;
      }
    }
  }
}

TEST(VAdaptive, SpanIsClaimedForCostsThatTheOrderIsMadeFor) {
  const auto form = (*find_schedule("v-adaptive"))->forms.span;
  const StageCosts even = {.forward = 2, .backward_input = 2, .backward_weight = 2};
  EXPECT_TRUE(form(within(4, 8, 6), even));
  EXPECT_FALSE(form(within(4, 8, 3), even));
  EXPECT_FALSE(form(within(4, 6, 6), even));
  EXPECT_FALSE(form(within(4, 8, 6), {.forward = 2, .backward_input = 2, .backward_weight = 1}));
  EXPECT_FALSE(
      form(within(4, 8, 6), {.forward = 2, .backward_input = 2, .backward_weight = 2, .transfer = 1}));
  ScheduleParameters other = within(4, 8, 6);
  other.costs = test::cost_table({.backward_weight = 9});
  EXPECT_FALSE(form(other, even));
}

struct Published {
  int ranks, microbatches;
  Nanoseconds forward, input, weight, transfer;
  int limit;
  double rate;
};
/// Run with the authors' code; 18, 18, 9 and 29, 29, 20 are rounded from the Zero Bubble paper's table 6.
constexpr Published kPublished[] = {
    {4, 8, 18, 18, 9, 1, 6, 0.1753},    {4, 8, 18, 18, 9, 1, 8, 0.0909},
    {4, 8, 29, 29, 20, 1, 6, 0.1429},   {4, 8, 29, 29, 20, 1, 8, 0.0545},
    {4, 8, 10, 14, 8, 2, 6, 0.2000},    {4, 8, 10, 14, 8, 2, 8, 0.1172},
    {4, 8, 10, 10, 10, 3, 6, 0.1781},   {4, 8, 10, 10, 10, 3, 8, 0.1011},
    {4, 8, 10, 20, 10, 0, 6, 0.1795},   {4, 8, 10, 20, 10, 0, 8, 0.0857},
    {4, 8, 10, 13, 5, 1, 6, 0.2113},    {4, 8, 10, 13, 5, 1, 8, 0.1250},
    {6, 12, 18, 18, 9, 1, 9, 0.1867},   {6, 12, 29, 29, 20, 1, 9, 0.1522},
    {6, 12, 10, 14, 8, 2, 9, 0.2320},   {6, 12, 10, 10, 10, 3, 9, 0.1964},
    {6, 12, 10, 20, 10, 0, 9, 0.2195},  {6, 12, 10, 13, 5, 1, 9, 0.2355},
    {8, 16, 18, 18, 9, 1, 10, 0.2332},  {8, 16, 18, 18, 9, 1, 13, 0.1738},
    {8, 16, 18, 18, 9, 1, 16, 0.1045},  {8, 16, 29, 29, 20, 1, 10, 0.2003},
    {8, 16, 29, 29, 20, 1, 13, 0.1354}, {8, 16, 29, 29, 20, 1, 16, 0.0631},
    {8, 16, 10, 14, 8, 2, 10, 0.2768},  {8, 16, 10, 14, 8, 2, 13, 0.2050},
    {8, 16, 10, 14, 8, 2, 16, 0.1380},  {8, 16, 10, 10, 10, 3, 10, 0.2393},
    {8, 16, 10, 10, 10, 3, 13, 0.1767}, {8, 16, 10, 10, 10, 3, 16, 0.1160},
    {8, 16, 10, 20, 10, 0, 10, 0.2727}, {8, 16, 10, 20, 10, 0, 13, 0.1795},
    {8, 16, 10, 20, 10, 0, 16, 0.0986}, {8, 16, 10, 13, 5, 1, 10, 0.2809},
    {8, 16, 10, 13, 5, 1, 13, 0.2127},  {8, 16, 10, 13, 5, 1, 16, 0.1450},
};

TEST(VAdaptive, IsNoLongerThanTheAuthorsCode) {
  for (const Published& row : kPublished) {
    const double found = rate(within(row.ranks, row.microbatches, row.limit), {.forward = row.forward,
                                                                               .backward_input = row.input,
                                                                               .backward_weight = row.weight,
                                                                               .transfer = row.transfer});
    EXPECT_LE(rounded(found), row.rate)
        << row.ranks << ' ' << row.forward << ' ' << row.input << " limit " << row.limit;
  }
}

// Of orders of one span the one with the shortest makespan, as V-Half's.
TEST(VAdaptive, PrefersShortMakespans) {
  EXPECT_EQ(step_time(generated("v-adaptive", within(4, 8, 6)), unit_cost_table({})).makespan,
            53 * kUnitTime);
  EXPECT_EQ(step_time(generated("v-adaptive", within(4, 8, 8)), unit_cost_table({})).makespan,
            51 * kUnitTime);
}

// One microbatch after the other is possible with the two activations that every rank then holds.
TEST(VAdaptive, RunsWithTwoActivations) {
  for (const int p : {1, 2, 5}) {
    const Schedule schedule = generated("v-adaptive", within(p, 7, 2));
    for (int r = 0; r < p; ++r) EXPECT_EQ(test::peak_live_activations(schedule, RankId(r)), 2);
  }
}

TEST(VAdaptive, RefusesLimitsThatNothingKeeps) {
  EXPECT_EQ(generate("v-adaptive", within(4, 8, 1)).error().message,
            "v-adaptive: memory_limit must be a whole number in [2, 16777216], found \"1\"\n"
            "v-adaptive: a rank holds both of its stages of a microbatch at once");
}

TEST(VAdaptive, RefusesCostsThatDoNotAddUp) {
  ScheduleParameters parameters = within(2, 1000, 4);
  parameters.costs = test::cost_table({.forward = Nanoseconds{1} << 52});
  EXPECT_EQ(generate("v-adaptive", parameters).error().message,
            "v-adaptive: costs of all actions must add up to less than 2^62 ns");
}

// An order for slow transfers is another one, and better under them.
TEST(VAdaptive, FollowsTheCosts) {
  const StageCosts costs = {.forward = 10, .backward_input = 10, .backward_weight = 10, .transfer = 3};
  const Schedule even = generated("v-adaptive", within(4, 16, 6));
  ScheduleParameters parameters = within(4, 16, 6);
  parameters.costs = test::cost_table(costs);
  const Schedule made = generated("v-adaptive", parameters);
  EXPECT_NE(made, even);
  EXPECT_LT(step_time(made, *parameters.costs).span, step_time(even, *parameters.costs).span);
}

}  // namespace
}  // namespace ppsim
