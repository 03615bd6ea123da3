#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include "support/closed_forms.hpp"
#include "support/expect_forms.hpp"

// The adaptive scheduler of the V placement under any costs.

namespace ppsim {
namespace {

using test::between;
using test::generated;
using test::peak_live_activations;

/// Costs that differ from stage to stage.
CostTable draw_stage_costs(int stages) {
  CostTable costs;
  for (const OpKind kind : {OpKind::forward, OpKind::backward_input, OpKind::backward_weight}) {
    for (int s = 0; s < stages; ++s) costs.set({kind, s}, between(0, 20));
  }
  for (const OpKind kind : {OpKind::send_forward, OpKind::send_backward}) costs.set({kind}, between(0, 5));
  return costs;
}

RC_GTEST_PROP(VAdaptive, NeverExceedsItsLimit, ()) {
  ScheduleParameters parameters{.ranks = between(1, 8), .microbatches = between(1, 40)};
  const int limit = between(2, 2 * parameters.ranks + 3);
  parameters.settings["memory_limit"] = std::to_string(limit);
  if (between(0, 1) == 1) parameters.costs = draw_stage_costs(2 * parameters.ranks);
  RC_LOG() << parameters << '\n';
  const Schedule schedule = generated("v-adaptive", parameters);
  for (int r = 0; r < parameters.ranks; ++r) RC_ASSERT(peak_live_activations(schedule, RankId(r)) <= limit);
}

/// Span under costs, and the peak over the ranks.
struct Measured {
  Nanoseconds span = 0;
  int peak = 0;
};

Measured measured(std::string_view name, const ScheduleParameters& parameters, const CostTable& costs) {
  const Schedule schedule = generated(name, parameters);
  Measured result{.span = test::step_time(schedule, costs).span};
  for (int r = 0; r < parameters.ranks; ++r) {
    result.peak = std::max(result.peak, peak_live_activations(schedule, RankId(r)));
  }
  return result;
}

RC_GTEST_PROP(VAdaptive, IsNoLongerThanFixedOrdersAtTheirMemory, ()) {
  ScheduleParameters parameters{.ranks = between(1, 8)};
  parameters.microbatches = between(1, 4 * parameters.ranks);
  const CostTable costs = draw_stage_costs(2 * parameters.ranks);
  const auto* name = *rc::gen::element("zb-v", "v-half", "v-min");
  const Measured fixed = measured(name, parameters, costs);
  parameters.settings["memory_limit"] = std::to_string(std::max(2, fixed.peak));
  parameters.costs = costs;
  RC_LOG() << name << ' ' << parameters << '\n';
  RC_ASSERT(measured("v-adaptive", parameters, costs).span <= fixed.span);
}

}  // namespace
}  // namespace ppsim
