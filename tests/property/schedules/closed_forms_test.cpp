#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include "support/closed_forms.hpp"
#include "support/draw_parameters.hpp"

// The closed forms of the registry against the earliest times of the generated orders, under the conditions
// and the definition of time for which they are claimed. Each property first asserts that the form holds
// where it should.

namespace ppsim {
namespace {

using test::generated;
using test::peak_live_activations;
using test::simulated_step_time;
using test::step_time;
using test::StepTime;

const ScheduleInfo& info_of(std::string_view name) { return **find_schedule(name); }

int between(int low, int high) { return *rc::gen::inRange(low, high + 1); }

StageCosts draw_costs() {
  StageCosts costs;
  costs.forward = between(1, 30);
  costs.backward = between(1, 60);
  costs.backward_input = between(1, 30);
  costs.backward_weight = between(1, 30);
  costs.overlap = between(1, 90);
  return costs;
}

/// Costs that some forms are for: F, I and W alike, B their two halves, a pair no shorter than its B.
StageCosts draw_even_costs() {
  const int third = between(1, 30);
  return {.forward = third,
          .backward = 2 * third,
          .backward_input = third,
          .backward_weight = third,
          .overlap = between(2 * third, 4 * third)};
}

/// A transfer shorter than the shortest action.
Nanoseconds draw_short_transfer(const StageCosts& costs) {
  return between(0, static_cast<int>(std::min(costs.forward, costs.backward)) - 1);
}

/// Both ways to time a schedule: the earliest times of its rows, and a simulated run of its lowered Program.
std::vector<StepTime> step_times_of(std::string_view name, const ScheduleParameters& parameters,
                                    const StageCosts& costs) {
  const Schedule schedule = generated(name, parameters);
  const CostTable table = test::cost_table(costs);
  std::vector<StepTime> times = {step_time(schedule, table)};
  for (const IssueOrder order : {IssueOrder::timed, IssueOrder::global}) {
    times.push_back(simulated_step_time(schedule, {.order = order}, table));
  }
  return times;
}

void expect_makespan(std::string_view name, const ScheduleParameters& parameters, const StageCosts& costs) {
  const auto form = info_of(name).forms.makespan(parameters, costs);
  RC_ASSERT(form.has_value());
  for (const StepTime& time : step_times_of(name, parameters, costs)) RC_ASSERT(time.makespan == *form);
}

void expect_span(std::string_view name, const ScheduleParameters& parameters, const StageCosts& costs) {
  const auto form = info_of(name).forms.span(parameters, costs);
  RC_ASSERT(form.has_value());
  for (const StepTime& time : step_times_of(name, parameters, costs)) RC_ASSERT(time.span == *form);
}

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

/// Transfers that take longer than actions contend for their channel, which the earliest times leave out.
RC_GTEST_PROP(ClosedForms, GpipeMakespanWithLongTransfers, ()) {
  StageCosts costs = draw_costs();
  costs.transfer = between(1, 100);
  const ScheduleParameters parameters = draw_gpipe();
  const auto form = info_of("gpipe").forms.makespan(parameters, costs);
  RC_ASSERT(form.has_value());
  RC_ASSERT(step_time(generated("gpipe", parameters), test::cost_table(costs)).makespan == *form);
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

RC_GTEST_PROP(ClosedForms, InterleavedMakespan, ()) {
  StageCosts costs = draw_costs();
  const int v = between(1, 4);
  if (v > 1) costs.transfer = draw_short_transfer(costs);
  const int p = between(1, 6);
  expect_makespan("interleaved-1f1b", {.ranks = p, .microbatches = p * between(1, 4), .chunks = v}, costs);
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
    for (const StepTime& time : step_times_of(info.name, parameters, costs)) {
      expect_time(makespan, time.makespan, claims);
      expect_time(span, time.span, claims);
    }
  });
  EXPECT_TRUE(holds);
  if (info.forms.makespan || info.forms.span) {
    EXPECT_GT(claims, 0);
  }
}

TEST_P(EveryClosedForm, IsThePeakOfLiveActivationsWhereItIsClaimed) {
  const ScheduleInfo& info = GetParam();
  if (!info.forms.peak_live_activations) GTEST_SKIP() << "no closed form";
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

INSTANTIATE_TEST_SUITE_P(Registry, EveryClosedForm, testing::ValuesIn(schedules().begin(), schedules().end()),
                         test::schedule_test_name);

}  // namespace
}  // namespace ppsim
