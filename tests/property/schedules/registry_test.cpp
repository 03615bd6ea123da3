#include "ppsim/schedules/registry.hpp"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>

#include "ppsim/core/ir/padding.hpp"
#include "support/closed_forms.hpp"
#include "support/draw_parameters.hpp"
#include "support/lowered.hpp"

// Properties of every schedule of the registry, for all parameters.

namespace ppsim {
namespace {

/// Whether the rows have an action of this kind, which lowering does not add again.
bool brings(const Schedule& schedule, OpKind kind) {
  for (int r = 0; r < schedule.pipeline().ranks(); ++r) {
    for (const Cell& cell : schedule.row(RankId(r))) {
      if (!cell.idle() && cell.actions().front().kind == kind) return true;
    }
  }
  return false;
}

/// Drawn options that the schedule can be lowered with.
LoweringOptions draw_options(const Schedule& schedule) {
  LoweringOptions options = test::draw_lowering_options(!brings(schedule, OpKind::optimizer));
  if (brings(schedule, OpKind::send_activation)) options.recompute = Recompute::none;
  return options;
}

class EverySchedule : public testing::TestWithParam<ScheduleInfo> {
 protected:
  /// Runs a property of the schedule under parameters that it accepts.
  template <class Property>
  void check_legal(const Property& property, const test::ParameterLimits& limits = {}) {
    EXPECT_TRUE(rc::check([&] {
      const ScheduleParameters parameters = test::draw_legal_parameters(GetParam(), limits);
      RC_LOG() << GetParam().name << ": " << parameters << '\n';
      property(parameters);
    }));
  }
};

constexpr test::ParameterLimits kLargest{.ranks = 16, .microbatches = 64, .chunks = 4, .slices = 8};

TEST_P(EverySchedule, BuildsForLegalParameters) {
  check_legal(
      [&](const ScheduleParameters& parameters) {
        const auto schedule = generate(GetParam().name, parameters);
        if (!schedule) RC_FAIL(to_string(schedule.error()));
        RC_ASSERT(schedule->name() == GetParam().name);
        RC_ASSERT(schedule->pipeline().ranks() == parameters.ranks);
        RC_ASSERT(batch_microbatches(schedule->pipeline()) == parameters.microbatches);
        RC_ASSERT(schedule->pipeline().slices() == parameters.slices);
        RC_ASSERT(*schedule == test::generated(GetParam().name, parameters));
      },
      kLargest);
}

TEST_P(EverySchedule, RefusesOtherParametersWithAReason) {
  EXPECT_TRUE(rc::check([&] {
    const ScheduleParameters parameters = test::draw_any_parameters(GetParam(), kLargest);
    RC_LOG() << GetParam().name << ": " << parameters << '\n';
    const auto schedule = generate(GetParam().name, parameters);
    const auto legal = check_parameters(GetParam(), parameters);
    RC_ASSERT(schedule.has_value() == legal.has_value());
    if (legal) return;
    RC_ASSERT(schedule.error() == legal.error());
    RC_ASSERT(schedule.error().code == ErrorCode::bad_argument);
    RC_ASSERT(schedule.error().message.find(std::string(GetParam().name) + ": ") == 0U);
  }));
}

TEST_P(EverySchedule, LowersUnderEveryOrderAndPolicy) {
  check_legal([&](const ScheduleParameters& parameters) {
    const Schedule schedule = test::generated(GetParam().name, parameters);
    const LoweringOptions options = draw_options(schedule);
    RC_LOG() << options << '\n';
    const CostTable costs = unit_cost_table({});
    const auto program = lower(schedule, options, &costs);
    if (!program) RC_FAIL(to_string(program.error()));
    RC_ASSERT(test::first_violation(*program) == "");
    if (options.order != IssueOrder::early) RC_ASSERT(test::finishes(*program));
    if (test::finishes(*program)) RC_ASSERT(test::uses_tensors_in_time(*program));
  });
}

TEST_P(EverySchedule, RunsUnderDefaultLowering) {
  check_legal(
      [&](const ScheduleParameters& parameters) {
        const Program program = test::lowered(test::generated(GetParam().name, parameters));
        RC_ASSERT(test::first_violation(program) == "");
        RC_ASSERT(test::finishes(program));
      },
      kLargest);
}

/// Those that say so of themselves.
class EveryAscendingSchedule : public EverySchedule {};

TEST_P(EveryAscendingSchedule, AccumulatesWeightGradientsAsItSays) {
  check_legal([&](ScheduleParameters parameters) {
    if (parameters.settings.contains("backward")) return;  // gpipe's other order
    const Schedule schedule = test::generated(GetParam().name, parameters);
    std::vector<int> last(static_cast<std::size_t>(schedule.pipeline().stages()), -1);
    for (int r = 0; r < parameters.ranks; ++r) {
      for (const Cell& cell : schedule.row(RankId(r))) {
        for (const Action& action : cell.actions()) {
          if (!gives_weight_gradient(action.kind)) continue;
          RC_ASSERT(last[action.stage().index()] <= action.microbatch);
          last[action.stage().index()] = action.microbatch;
        }
      }
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Registry, EveryAscendingSchedule,
                         testing::ValuesIn(test::schedules_with([](const ScheduleInfo& schedule) {
                           return schedule.ascending_accumulation;
                         })),
                         test::schedule_test_name);

INSTANTIATE_TEST_SUITE_P(Registry, EverySchedule,
                         testing::ValuesIn(registered_schedules().begin(), registered_schedules().end()),
                         test::schedule_test_name);

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

RC_GTEST_PROP(Interleaved, IsPyTorchsWherePyTorchHasOne, ()) {
  const int p = *rc::gen::inRange(1, 7);
  const int n = *rc::gen::inRange(1, 25);
  const int v = *rc::gen::inRange(1, 5);
  RC_PRE(n % std::max(1, n / p) == 0);
  const Schedule schedule = test::generated("interleaved-1f1b", {.ranks = p, .microbatches = n, .chunks = v});
  for (int r = 0; r < p; ++r) {
    std::vector<Action> row;
    for (const Cell& cell : schedule.row(RankId(r))) row.push_back(cell.actions().front());
    RC_ASSERT(row == pytorch_interleaved_row(p, n, v, r));
  }
}

}  // namespace
}  // namespace ppsim
