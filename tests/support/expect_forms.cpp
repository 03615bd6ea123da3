#include "support/expect_forms.hpp"

#include <rapidcheck.h>

#include <algorithm>

#include "support/closed_forms.hpp"

namespace ppsim::test {
namespace {

TimeForm forms_makespan(std::string_view name) { return (**find_schedule(name)).forms.makespan; }

}  // namespace

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

StageCosts draw_even_costs() {
  const int third = between(1, 30);
  return {.forward = third,
          .backward = 2 * third,
          .backward_input = third,
          .backward_weight = third,
          .overlap = between(2 * third, 4 * third)};
}

Nanoseconds draw_short_transfer(const StageCosts& costs) {
  return between(0, static_cast<int>(std::min(costs.forward, costs.backward)) - 1);
}

void expect_makespan(std::string_view name, const ScheduleParameters& parameters, const StageCosts& costs) {
  const auto form = forms_makespan(name)(parameters, costs);
  RC_ASSERT(form.has_value());
  for (const StepTime& time : step_times_of(name, parameters, costs)) RC_ASSERT(time.makespan == *form);
}

void expect_span(std::string_view name, const ScheduleParameters& parameters, const StageCosts& costs) {
  const auto form = (**find_schedule(name)).forms.span(parameters, costs);
  RC_ASSERT(form.has_value());
  for (const StepTime& time : step_times_of(name, parameters, costs)) RC_ASSERT(time.span == *form);
}

void expect_earliest_makespan(std::string_view name, const ScheduleParameters& parameters,
                              const StageCosts& costs) {
  const auto form = forms_makespan(name)(parameters, costs);
  RC_ASSERT(form.has_value());
  RC_ASSERT(step_time(generated(name, parameters), cost_table(costs)).makespan == *form);
}

}  // namespace ppsim::test
