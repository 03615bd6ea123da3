#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include "ppsim/verifier/verify.hpp"
#include "support/closed_forms.hpp"
#include "support/draw_parameters.hpp"
#include "support/finished_run.hpp"
#include "support/lowered.hpp"

// Activations in host memory, as PipeOffload (Wan et al., 2503.01328) has them: copies beside computation.

namespace ppsim {
namespace {

using test::FinishedRun;
using test::generated;
using test::lowered;

struct Figures {
  Nanoseconds makespan = 0;
  Bytes peak = 0;
};

/// At unit costs, with copies of this many nanoseconds each way.
Figures figures(const Schedule& schedule, int percent, Nanoseconds copy,
                IssueOrder order = IssueOrder::timed) {
  CostTable costs = unit_cost_table({});
  costs.set({OpKind::offload}, copy);
  costs.set({OpKind::reload}, copy);
  LoweringOptions options{.order = order};
  options.offload.percent = percent;
  const FinishedRun run(lowered(schedule, options, &costs), costs, activation_size_table(1));
  Figures result{step_times(run.program(), run.trace()).makespan, 0};
  for (const RankMetrics& rank : run.metrics().ranks) result.peak = std::max(result.peak, rank.peak_bytes);
  return result;
}

/// k = To / Tc, To the time of both copies and Tc that of F and B: with k <= 2/3 here all can go at no cost,
/// and two activations are left of any number.
TEST(PipeOffload, EverythingGoesBesideComputationWhereCopiesFit) {
  for (const auto& [name, chunks] :
       {std::pair{"1f1b", 1}, {"interleaved-1f1b", 2}, {"interleaved-1f1b", 4}}) {
    const ScheduleParameters parameters{.ranks = 4, .microbatches = 16, .chunks = chunks};
    const Schedule schedule = generated(name, parameters);
    for (const IssueOrder order : {IssueOrder::timed, IssueOrder::global}) {
      const Figures without = figures(schedule, 0, kUnitTime, order);
      const Figures with = figures(schedule, 100, kUnitTime, order);
      EXPECT_EQ(with.makespan, without.makespan) << name;
      EXPECT_EQ(with.peak, 2) << name;
    }
  }
}

/// At k = 1 there is no idle moment on the copy queue; at k = 4/3 a part must stay, and the step takes no
/// longer.
TEST(PipeOffload, WhatDoesNotFitStays) {
  const Schedule schedule = generated("1f1b", {.ranks = 8, .microbatches = 32});
  const Nanoseconds makespan = figures(schedule, 0, 0).makespan;
  for (const Nanoseconds copy : {3 * kUnitTime / 2, 2 * kUnitTime, 5 * kUnitTime}) {
    EXPECT_EQ(figures(schedule, 100, copy).makespan, makespan);
    EXPECT_LE(figures(schedule, 100, copy).peak, 8);
  }
  EXPECT_EQ(figures(schedule, 100, 3 * kUnitTime / 2).peak, 4);
}

/// The paper says that half of the activations, those of the longest lives, are three quarters of the peak.
/// Computed: a half of the peak in the paper's group-interleaved schedule, a little more in interleaved 1F1B,
/// where the later chunks' activations never reach their own peaks together.
TEST(PipeOffload, HalfOfTheActivationsIsAboutHalfOfThePeak) {
  const auto peaks = [](const char* name, int chunks) {
    const ScheduleParameters parameters{.ranks = 8, .microbatches = 32, .chunks = chunks};
    const Schedule schedule = generated(name, parameters);
    return std::pair(figures(schedule, 0, kUnitTime).peak, figures(schedule, 50, kUnitTime).peak);
  };
  EXPECT_EQ(peaks("1f1b", 1), std::pair(Bytes{8}, Bytes{5}));
  EXPECT_EQ(peaks("interleaved-1f1b", 2), std::pair(Bytes{23}, Bytes{10}));
  EXPECT_EQ(peaks("interleaved-1f1b", 4), std::pair(Bytes{39}, Bytes{18}));
  EXPECT_EQ(peaks("group-interleaved", 4), std::pair(Bytes{32}, Bytes{16}));
}

class EveryScheduleOffloads : public testing::TestWithParam<ScheduleInfo> {};

/// Under known times copies cost nothing, whatever they take, and the worst case over all timings is no more
/// than without them.
TEST_P(EveryScheduleOffloads, AtNoCost) {
  EXPECT_TRUE(rc::check([&] {
    const ScheduleParameters parameters =
        test::draw_legal_parameters(GetParam(), {.ranks = 4, .microbatches = 10});
    RC_LOG() << GetParam().name << ": " << parameters << '\n';
    const Schedule schedule = generated(GetParam().name, parameters);
    const Nanoseconds copy = *rc::gen::inRange(0, 8) * kUnitTime / 2;
    const int percent = *rc::gen::inRange(1, 101);
    const Figures without = figures(schedule, 0, copy);
    const Figures with = figures(schedule, percent, copy);
    RC_ASSERT(with.makespan == without.makespan);
    RC_ASSERT(with.peak <= without.peak);
  }));
}

INSTANTIATE_TEST_SUITE_P(Registry, EveryScheduleOffloads,
                         testing::ValuesIn(registered_schedules().begin(), registered_schedules().end()),
                         test::schedule_test_name);

}  // namespace
}  // namespace ppsim
