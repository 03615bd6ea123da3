#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>

#include "ppsim/core/execution/naive_executor.hpp"
#include "ppsim/simulator/engine/simulate.hpp"
#include "support/random_program.hpp"
#include "support/random_schedule.hpp"

namespace ppsim {
namespace {

struct Case {
  Program program;
  CostTable costs;
  TransportCapabilities capabilities;
};

Case draw_case(int mutations, bool with_residency) {
  const Schedule schedule = *test::schedules(test::general_shapes());
  const auto seed = *rc::gen::arbitrary<std::uint64_t>();
  return {test::random_program(schedule, mutations, seed),
          test::random_costs(schedule.pipeline().stages(), seed + 1),
          test::random_capabilities(with_residency, seed + 2)};
}

std::vector<InstructionId> waiters(const Stuck& stuck) {
  std::vector<InstructionId> ids;
  for (const InstructionWait& stall : stuck.stalls) ids.push_back(stall.waiter);
  return ids;
}

/// A cycle of waits, or a chain of them that ends at something that does not exist.
bool explains(const std::vector<Wait>& chain) {
  if (chain.empty()) return false;
  for (std::size_t i = 0; i + 1 < chain.size(); ++i) {
    if (chain[i].waits_for != chain[i + 1].who) return false;
  }
  return !chain.back().waits_for.instruction.valid() || chain.back().waits_for == chain.front().who;
}

void compare(const Case& c, const NaiveRun& naive) {
  const SimulatedRun run = simulate_program(c.program, c.capabilities, c.costs).value();
  RC_ASSERT(run.has_value() == (naive.outcome == NaiveRun::Outcome::finished));
  if (run) {
    RC_ASSERT(*run == run_naively(c.program, timed(c.capabilities), c.costs).trace);
    return;
  }
  RC_ASSERT(run.error().mismatches.empty() == (naive.outcome == NaiveRun::Outcome::deadlock));
  if (naive.outcome == NaiveRun::Outcome::mismatch) return;
  RC_ASSERT(waiters(run.error()) == naive.incomplete);
  RC_ASSERT(explains(run.error().culprits));
}

void expect_same_as_naive(const Case& c) {
  const NaiveRun naive = run_naively(c.program, c.capabilities, c.costs);
  RC_TAG(naive.outcome == NaiveRun::Outcome::finished   ? "finished"
         : naive.outcome == NaiveRun::Outcome::deadlock ? "deadlock"
                                                        : "mismatch");
  compare(c, naive);
}

RC_GTEST_PROP(SimulateProperty, LoweredProgramsRunAsTheNaiveExecutorSays, ()) {
  expect_same_as_naive(draw_case(0, false));
}

RC_GTEST_PROP(SimulateProperty, DamagedProgramsRunAsTheNaiveExecutorSays, ()) {
  expect_same_as_naive(draw_case(*rc::gen::inRange(1, 4), false));
}

RC_GTEST_PROP(SimulateProperty, ResidencyRunsAsTheNaiveExecutorSays, ()) {
  expect_same_as_naive(draw_case(*rc::gen::inRange(0, 3), true));
}

RC_GTEST_PROP(SimulateProperty, FullChannelsRunAsTheNaiveExecutorSays, ()) {
  test::RandomShape shape{.ranks = 2};
  shape.chunks = *rc::gen::inRange(1, 4);
  shape.microbatches = *rc::gen::inRange(2, 6);
  shape.general = *rc::gen::arbitrary<bool>();
  auto seed = *rc::gen::arbitrary<std::uint64_t>();
  TransportCapabilities capabilities{.credits = *rc::gen::inRange(1, 3)};
  if (*rc::gen::arbitrary<bool>()) capabilities.residency = *rc::gen::inRange(1, 9);
  for (int i = 0; i < 10; ++i, ++seed) {
    const Schedule schedule = test::random_schedule(shape, seed);
    const Case c{test::late_program(schedule, seed),
                 test::random_costs(schedule.pipeline().stages(), seed + 1), capabilities};
    compare(c, run_naively(c.program, c.capabilities, c.costs));
  }
}

RC_GTEST_PROP(SimulateProperty, AmpleResidencyChangesNothing, ()) {
  Case c = draw_case(*rc::gen::inRange(0, 3), false);
  c.capabilities.launches = c.capabilities.guaranteed_launches = {};
  const SimulatedRun compiled = simulate_program(c.program, c.capabilities, c.costs).value();
  c.capabilities.residency = static_cast<int>(c.program.size());
  const SimulatedRun by_event = simulate_program(c.program, c.capabilities, c.costs).value();
  RC_ASSERT((by_event == compiled));
}

RC_GTEST_PROP(SimulateProperty, FastClockAgreesWithRounds, ()) {
  const Case c = draw_case(0, false);
  const AnalyzedProgram analyzed(c.program, c.capabilities);
  const auto compiled = compile(analyzed);
  RC_PRE(compiled.has_value());
  const BoundCosts costs = bind_costs(*compiled, c.costs).value();
  const TimedTrace trace = simulate_trace(*compiled, analyzed.timed_graph(), costs);
  SimulationScratch scratch;
  const StepTimes times = simulate(*compiled, costs, scratch);

  Nanoseconds makespan = 0;
  for (const Span& span : trace.spans) makespan = std::max(makespan, span.end.time);
  RC_ASSERT(times.makespan == makespan);
  for (RankId rank(0); rank.value() < c.program.pipeline().ranks(); rank = RankId(rank.value() + 1)) {
    RankTimes expected;
    bool any = false;
    for (InstructionId id = c.program.first(rank); id < c.program.last(rank);
         id = InstructionId(id.value() + 1)) {
      if (c.program.queues_of(id).front() != Program::kComputeQueue) continue;
      const Span& span = trace.spans[id];
      if (!any) expected.start = span.start.time;
      any = true;
      expected.end = span.end.time;
      expected.busy += span.end.time - span.start.time;
    }
    RC_ASSERT(times.ranks[rank] == expected);
  }
}

/// By events or as straight-line arithmetic.
RC_GTEST_PROP(SimulateBesideTransfers, IsTheSameWhereNothingIsSlowed, ()) {
  const Case c = draw_case(*rc::gen::inRange(0, 2), false);
  TransportCapabilities kernels = c.capabilities;
  kernels.launches = kernels.guaranteed_launches = {LaunchOrder::start, false, *rc::gen::arbitrary<bool>()};
  const bool same = simulate_beside_transfers({c.program, kernels}, {c.costs, c.costs}).value() ==
                    simulate_program(c.program, kernels, c.costs).value();
  RC_ASSERT(same);
}

RC_GTEST_PROP(SimulateBesideTransfers, TakesFromTheOneTimeToTheOther, ()) {
  const Case c = draw_case(0, false);
  TransportCapabilities kernels = c.capabilities;
  kernels.launches = kernels.guaranteed_launches = {LaunchOrder::start, false, false};
  CostTable beside;
  for (const auto& [key, duration] : c.costs.entries())
    beside.set(key, duration + *rc::gen::inRange<Nanoseconds>(0, 20));
  const SimulatedRun run = simulate_beside_transfers({c.program, kernels}, {c.costs, beside}).value();
  RC_PRE(run.has_value());
  for (InstructionId id(0); id.index() < c.program.size(); id = next(id)) {
    const auto actions = c.program.actions(id);
    if (info(actions[0].kind).resource != Resource::compute) continue;
    const CostClass key = cost_class_of(actions, c.program.instruction(id).form);
    const Span& span = run->spans[id];
    RC_ASSERT(span.end.time - span.start.time >= c.costs(key));
    RC_ASSERT(span.end.time - span.start.time <= std::max(c.costs(key), beside(key)));
  }
}

}  // namespace
}  // namespace ppsim
