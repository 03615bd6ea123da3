#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include "support/closed_forms.hpp"
#include "support/draw_parameters.hpp"
#include "support/expect_forms.hpp"

// The closed forms of the registry against the earliest times of the generated orders, under the conditions
// and the definition of time for which they are claimed. Each property first asserts that the form holds
// where it should.

namespace ppsim {
namespace {

using test::between;
using test::draw_costs;
using test::draw_even_costs;
using test::draw_short_transfer;
using test::expect_makespan;
using test::expect_span;
using test::generated;
using test::peak_live_activations;
using test::StepTime;

ScheduleParameters draw_gpipe() {
  ScheduleParameters parameters{.ranks = between(1, 8), .microbatches = between(1, 20)};
  if (*rc::gen::arbitrary<bool>()) parameters.settings["backward"] = "reversed";
  return parameters;
}

RC_GTEST_PROP(ClosedForms, GpipeMakespan, ()) {
  StageCosts costs = draw_costs();
  costs.transfer = draw_short_transfer(costs);
  expect_makespan("gpipe", draw_gpipe(), costs);
}

RC_GTEST_PROP(ClosedForms, GpipeMakespanWithLongTransfers, ()) {
  StageCosts costs = draw_costs();
  costs.transfer = between(1, 100);
  test::expect_earliest_makespan("gpipe", draw_gpipe(), costs);
}

RC_GTEST_PROP(ClosedForms, OneFOneBMakespanWithoutTransfers, ()) {
  expect_makespan("1f1b", {.ranks = between(1, 8), .microbatches = between(1, 24)}, draw_costs());
}

RC_GTEST_PROP(ClosedForms, OneFOneBMakespanWithTransfers, ()) {
  StageCosts costs = draw_costs();
  costs.transfer = draw_short_transfer(costs);
  const int p = between(1, 8);
  expect_makespan("1f1b", {.ranks = p, .microbatches = between(p, 4 * p + 3)}, costs);
}

RC_GTEST_PROP(ClosedForms, ZbH1MakespanAndSpan, ()) {
  StageCosts costs = draw_costs();
  costs.backward_weight = between(1, static_cast<int>(costs.forward));
  const int p = between(1, 8);
  const ScheduleParameters parameters{.ranks = p, .microbatches = between(p, 4 * p)};
  expect_span("zb-h1", parameters, costs);
  if (costs.backward_input >= costs.backward_weight) expect_makespan("zb-h1", parameters, costs);
}

RC_GTEST_PROP(ClosedForms, ZbH2Span, ()) {
  StageCosts costs = draw_costs();
  costs.backward_weight = between(1, static_cast<int>(std::min(costs.forward, costs.backward_input)));
  const int p = between(1, 8);
  expect_span("zb-h2", {.ranks = p, .microbatches = between(2 * p - 1, 5 * p)}, costs);
}

// Whatever a schedule of the registry claims, wherever it claims it.
class EveryClosedForm : public testing::TestWithParam<ScheduleInfo> {};

void expect_time(const std::optional<Nanoseconds>& form, Nanoseconds found, int& claims) {
  if (!form) return;
  ++claims;
  RC_ASSERT(found == *form);
}

TEST_P(EveryClosedForm, IsTheTimeWhereItIsClaimed) {
  const ScheduleInfo& info = GetParam();
  int claims = 0;
  const bool holds = rc::check([&] {
    const ScheduleParameters parameters = test::draw_legal_parameters(info, {.microbatches = 20});
    StageCosts costs = *rc::gen::arbitrary<bool>() ? draw_costs() : draw_even_costs();
    if (*rc::gen::arbitrary<bool>()) costs.transfer = draw_short_transfer(costs);
    RC_LOG() << parameters << ", " << costs << '\n';
    const auto makespan = info.forms.makespan ? info.forms.makespan(parameters, costs) : std::nullopt;
    const auto span = info.forms.span ? info.forms.span(parameters, costs) : std::nullopt;
    if (!makespan && !span) return;
    for (const StepTime& time : test::step_times_of(info.name, parameters, costs)) {
      expect_time(makespan, time.makespan, claims);
      expect_time(span, time.span, claims);
    }
  });
  EXPECT_TRUE(holds);
  if (info.forms.makespan || info.forms.span) {
    EXPECT_GT(claims, 0);
  }
}

class EveryPeakForm : public testing::TestWithParam<ScheduleInfo> {};

TEST_P(EveryPeakForm, IsThePeakOfLiveActivationsWhereItIsClaimed) {
  const ScheduleInfo& info = GetParam();
  int claims = 0;
  const bool holds = rc::check([&] {
    const ScheduleParameters parameters = test::draw_legal_parameters(info, {.microbatches = 20});
    const Schedule schedule = generated(info.name, parameters);
    const auto simulated = test::simulated_peaks(schedule, test::cost_table(draw_costs()));
    for (int r = 0; r < parameters.ranks; ++r) {
      const auto form = info.forms.peak_live_activations(parameters, RankId(r));
      if (!form) continue;
      ++claims;
      RC_ASSERT(peak_live_activations(schedule, RankId(r)) == *form);
      RC_ASSERT(simulated[RankId(r)] == *form);
    }
  });
  EXPECT_TRUE(holds);
  EXPECT_GT(claims, 0);
}

INSTANTIATE_TEST_SUITE_P(Registry, EveryPeakForm,
                         testing::ValuesIn(test::schedules_with([](const ScheduleInfo& schedule) {
                           return schedule.forms.peak_live_activations != nullptr;
                         })),
                         test::schedule_test_name);

INSTANTIATE_TEST_SUITE_P(Registry, EveryClosedForm,
                         testing::ValuesIn(registered_schedules().begin(), registered_schedules().end()),
                         test::schedule_test_name);

}  // namespace
}  // namespace ppsim
