#include "ppsim/schedules/registry.hpp"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include "support/closed_forms.hpp"
#include "support/lowered.hpp"

// What holds for every schedule of the registry, whatever its parameters.

namespace ppsim {
namespace {

int between(int low, int high) { return *rc::gen::inRange(low, high + 1); }

const ScheduleInfo& draw_schedule() {
  return schedules()[static_cast<std::size_t>(between(0, static_cast<int>(schedules().size()) - 1))];
}

ScheduleParameters draw_parameters(const ScheduleInfo& info) {
  ScheduleParameters parameters{.ranks = between(1, 6), .microbatches = between(1, 14)};
  if (info.most_chunks > 1) parameters.chunks = between(1, std::min(4, info.most_chunks));
  if (info.has_slices) parameters.slices = between(1, 3);
  if (info.name == "gpipe" && *rc::gen::arbitrary<bool>()) parameters.settings["backward"] = "reversed";
  if (info.name == "interleaved-1f1b" && *rc::gen::arbitrary<bool>()) {
    const int least = std::min(parameters.ranks, parameters.microbatches);
    parameters.settings["group"] = std::to_string(between(least, parameters.microbatches));
  }
  return parameters;
}

RC_GTEST_PROP(Registry, EveryScheduleBuildsForLegalParameters, ()) {
  const ScheduleInfo& info = draw_schedule();
  const ScheduleParameters parameters = draw_parameters(info);
  RC_LOG() << info.name << ": " << parameters << '\n';
  const auto schedule = generate(info.name, parameters);
  if (!schedule) RC_FAIL(to_string(schedule.error()));
  RC_ASSERT(schedule->name() == info.name);
  RC_ASSERT(schedule->pipeline().stages() == parameters.ranks * info.chunks(parameters));
  RC_ASSERT(schedule->pipeline().microbatches() == parameters.microbatches);
}

RC_GTEST_PROP(Registry, EveryScheduleLowersUnderEveryOrderAndPolicy, ()) {
  const ScheduleInfo& info = draw_schedule();
  const ScheduleParameters parameters = draw_parameters(info);
  const LoweringOptions options = test::draw_lowering_options(true);
  RC_LOG() << info.name << ": " << parameters << ", " << options << '\n';
  const CostTable costs = unit_cost_table({});
  const auto program = lower(test::generated(info.name, parameters), options, &costs);
  if (!program) RC_FAIL(to_string(program.error()));
  RC_ASSERT(test::first_violation(*program) == "");
  if (options.order != IssueOrder::early) RC_ASSERT(test::finishes(*program));
}

RC_GTEST_PROP(Registry, EveryScheduleRunsUnderDefaultLowering, ()) {
  const ScheduleInfo& info = draw_schedule();
  const Program program = test::lowered(test::generated(info.name, draw_parameters(info)));
  RC_ASSERT(test::first_violation(program) == "");
  RC_ASSERT(test::finishes(program));
}

RC_GTEST_PROP(Registry, WeightGradientsAccumulateInAscendingOrder, ()) {
  const ScheduleInfo& info = draw_schedule();
  ScheduleParameters parameters = draw_parameters(info);
  parameters.settings.erase("backward");
  const Schedule schedule = test::generated(info.name, parameters);
  std::vector<int> last(static_cast<std::size_t>(schedule.pipeline().stages()), -1);
  for (int r = 0; r < parameters.ranks; ++r) {
    for (const Step& step : schedule.row(RankId(r))) {
      for (const Action& action : step.actions()) {
        if (!gives_weight_gradient(action.kind)) continue;
        RC_ASSERT(last[action.stage().index()] < action.microbatch);
        last[action.stage().index()] = action.microbatch;
      }
    }
  }
}

}  // namespace
}  // namespace ppsim
