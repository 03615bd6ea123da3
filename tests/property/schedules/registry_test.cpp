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

/// Row of a rank by the index formulas of PyTorch's ScheduleInterleaved1F1B, where it accepts the parameters.
std::vector<Action> pytorch_interleaved_row(int p, int n, int v, int rank) {
  const int group = n / std::max(1, n / p);
  const int warmup = std::min((v - 1) * group + 2 * (p - 1 - rank), n * v);
  std::vector<int> forwards(static_cast<std::size_t>(p * v), 0);
  std::vector<int> backwards = forwards;
  std::vector<Action> row;
  const auto forward = [&](int step) {
    const int stage = (step / group) % v * p + rank;
    row.push_back(make_action(OpKind::forward, stage, forwards[static_cast<std::size_t>(stage)]++));
  };
  const auto backward = [&](int step) {
    const int stage = (v - 1 - (step - warmup) / group % v) * p + rank;
    row.push_back(make_action(OpKind::backward, stage, backwards[static_cast<std::size_t>(stage)]++));
  };
  for (int step = 0; step < n * v + warmup; ++step) {
    if (step < n * v) forward(step);
    if (step >= warmup) backward(step);
  }
  return row;
}

RC_GTEST_PROP(Registry, InterleavedIsPyTorchsWherePyTorchHasOne, ()) {
  const int p = between(1, 6);
  const int n = between(1, 24);
  const int v = between(1, 4);
  RC_PRE(n % std::max(1, n / p) == 0);
  const Schedule schedule = test::generated("interleaved-1f1b", {.ranks = p, .microbatches = n, .chunks = v});
  for (int r = 0; r < p; ++r) {
    std::vector<Action> row;
    for (const Step& step : schedule.row(RankId(r))) row.push_back(step.actions().front());
    RC_ASSERT(row == pytorch_interleaved_row(p, n, v, r));
  }
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
