#include "ppsim/planner/run_comparison.hpp"

#include <gtest/gtest.h>

#include "ppsim/gpu_backend/executor/measured_costs.hpp"
#include "ppsim/gpu_backend/stage_model/null_model.hpp"
#include "ppsim/planner/profile.hpp"
#include "ppsim/schedules/registry.hpp"
#include "support/finished_run.hpp"
#include "support/linear_model.hpp"
#include "support/lowered.hpp"
#include "support/programs.hpp"
#include "support/timing.hpp"

namespace ppsim {
namespace {

using test::cost_table;
using test::FinishedRun;
using enum OpKind;

CostTable step_costs() {
  return cost_table({{forward, -1, 10}, {backward, -1, 20}, {send_forward, -1, 3}, {send_backward, -1, 4}});
}

/// The step of two ranks: 0F0 to 10, 1F0 from 13 to 23, 1B0 to 43, 0B0 from 47 to 67.
FinishedRun simulated_step() { return {test::two_rank_step(), step_costs()}; }

IdleSplit split_of(const FinishedRun& run, const TimedTrace& trace) {
  const TimedRun timed = run.timed_run();
  return idle_split({timed.analyzed, trace, timed.costs, timed.sizes, true});
}

TEST(IdleSplit, OfASimulatedStepIsWaitAndTransfers) {
  const FinishedRun run = simulated_step();
  const IdleSplit split = split_of(run, run.trace());
  EXPECT_EQ(split.busy, 60);
  EXPECT_EQ(split.transfer, 3 + 4);
  EXPECT_EQ(split.wait, (43 - 10) + 10 + (67 - 43));
  EXPECT_EQ(split.contention, 0);
  EXPECT_EQ(split.launch, 0);
  EXPECT_EQ(split.busy + split.idle(), 2 * 67);
}

TEST(IdleSplit, TellsASlowTransferFromALateStart) {
  const FinishedRun run = simulated_step();
  TimedTrace trace = run.trace();
  // The last transfer takes 5 more than it costs, and 0B0 starts 2 after it.
  for (Span& span : trace.spans) {
    if (span.end.time == 47) span.end.time = 52;
    if (span.start.time == 47) span = {{54, 0}, {74, 0}};
  }
  const IdleSplit split = split_of(run, trace);
  EXPECT_EQ(split.transfer, 3 + 4);
  EXPECT_EQ(split.contention, 5);
  EXPECT_EQ(split.launch, 2);
  EXPECT_EQ(split.busy + split.idle(), 2 * 74);
}

VerifiedRun run_null(const Program& program, const VerifiedRunOptions& options) {
  auto result = verify_then_run(program, NullModel(), options);
  if (!result) throw std::runtime_error(to_string(result.error()));
  return *std::move(result);
}

TEST(RunComparison, CountsEveryKindAndTransfersByTheirSend) {
  const Program program = test::two_rank_step();
  VerifiedRunOptions options;
  options.run.steps = 3;
  const RunComparison comparison = compare_run({program, rendezvous()}, run_null(program, options));
  std::vector<OpKind> kinds;
  for (const KindComparison& kind : comparison.kinds) kinds.push_back(kind.kind);
  EXPECT_EQ(kinds, (std::vector<OpKind>{forward, backward, send_forward, send_backward}));
  EXPECT_EQ(comparison.kinds[0].count, 2);
  EXPECT_EQ(comparison.kinds[2].count, 1);
}

TEST(RunComparison, NamesAKindThatNothingWasMeasuredOf) {
  const Program program = test::two_rank_step();
  VerifiedRun run = run_null(program, {});
  for (TimedTrace& trace : run.run.traces) {
    for (const InstructionId id : program.ids()) {
      const OpKind kind = program.actions(id).front().kind;
      if (kind == send_forward || kind == recv_forward) trace.spans[id] = {{-1, 0}, {-1, 0}};
    }
  }
  const RunComparison comparison = compare_run({program, rendezvous()}, run);
  ASSERT_EQ(comparison.kinds.size(), 4U);
  EXPECT_EQ(comparison.kinds[2].kind, send_forward);
  EXPECT_EQ(comparison.kinds[2].count, 0);
}

TEST(VerifiedRun, GivenCostsPredictTheMedianStep) {
  const Program program = test::two_rank_step();
  const CostTable costs = step_costs();
  VerifiedRunOptions options;
  options.run.steps = 5;
  options.costs = &costs;
  const VerifiedRun result = run_null(program, options);
  EXPECT_EQ(result.simulated_step_ns, 67);
  EXPECT_EQ(result.simulated, simulated_step().trace());
  std::vector<Nanoseconds> steps = result.run.step_ns;
  std::sort(steps.begin(), steps.end());
  EXPECT_EQ(result.measured_step_ns, steps[2]);
  const RunComparison comparison = compare_run({program, rendezvous()}, result);
  EXPECT_EQ(comparison.kinds[1].simulated, 40);
  EXPECT_EQ(comparison.simulated.busy, 60);
}

/// Mean costs of some of the traces that a run has kept.
CostTable costs_of_steps(const Program& program, const VerifiedRun& run,
                         const std::vector<std::size_t>& steps, double outliers = 0) {
  std::vector<TimedTrace> traces;
  for (const std::size_t i : steps) traces.push_back(run.run.traces[i]);
  const ExecutionGraph graph = build_execution_graph(program, rendezvous());
  return mean_costs(measured_durations({program, graph.capabilities}, traces), outliers);
}

Nanoseconds makespan(const Program& program, const CostTable& costs) {
  Nanoseconds last = 0;
  const TimedTrace trace = simulate_program(program, rendezvous(), costs).value().value();
  for (const Span& span : trace.spans) last = std::max(last, span.end.time);
  return last;
}

TEST(VerifiedRun, AStepPredictsTheNext) {
  const Program program = test::lowered(generate("1f1b", {.ranks = 2, .microbatches = 6}).value());
  VerifiedRunOptions options;
  options.run.steps = 10;
  options.run.kept_traces = 8;
  const VerifiedRun result = run_null(program, options);
  std::vector<std::pair<double, std::size_t>> ratios;
  for (const std::size_t i : {3, 5, 7}) {
    const auto simulated = static_cast<double>(makespan(program, costs_of_steps(program, result, {i - 1})));
    ratios.emplace_back(static_cast<double>(result.run.step_ns[i + 2]) / simulated, i);
  }
  std::sort(ratios.begin(), ratios.end());
  const std::size_t median = ratios[1].second;
  EXPECT_EQ(result.predicted_steps, 3U);
  EXPECT_EQ(result.compared, median);
  EXPECT_EQ(result.measured_step_ns, result.run.step_ns[median + 2]);
  EXPECT_EQ(result.costs, costs_of_steps(program, result, {median - 1}));
  EXPECT_EQ(result.simulated_step_ns, makespan(program, result.costs));
  EXPECT_EQ(result.repeated_step_ns, makespan(program, costs_of_steps(program, result, {median})));
  EXPECT_EQ(result.measured.costs, costs_of_steps(program, result, {1, 2, 3, 4, 5, 6, 7}, 0.05));
}

TEST(VerifiedRun, OfTwoStepsTheFirstPredictsAndOneStepPredictsItself) {
  const Program program = test::two_rank_step();
  VerifiedRunOptions options;
  for (const int steps : {1, 2}) {
    options.run.steps = steps;
    const VerifiedRun result = run_null(program, options);
    EXPECT_EQ(result.predicted_steps, 1U);
    EXPECT_EQ(result.compared, static_cast<std::size_t>(steps - 1));
    EXPECT_EQ(result.measured_step_ns, result.run.step_ns.back());
    EXPECT_EQ(result.costs, costs_of_steps(program, result, {0}));
  }
}

TEST(VerifiedRun, AnEmulatedRunHasNoGradients) {
  VerifiedRunOptions options;
  options.run.backend = EmulatedOptions{step_costs()};
  options.compare = true;
  const auto result = verify_then_run(test::two_rank_step(), NullModel(), options);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, ErrorCode::bad_argument);
}

TEST(Profile, HasMeanAndQuartilesOfEveryClass) {
  const std::vector<Program> programs = {test::two_rank_step(), test::deferred_receives(true)};
  RunOptions options;
  options.steps = 5;
  const auto tables = profile(programs, NullModel(), options);
  ASSERT_TRUE(tables) << to_string(tables.error());
  EXPECT_EQ(tables->sizes, NullModel().sizes(programs[0].pipeline()));
  const CostSpread& spread = tables->spreads.at({forward, 0, -1, 0});
  EXPECT_EQ(spread.samples, 4) << "one F of stage 0 in each step but the first, of the first Program";
  EXPECT_LE(spread.lower_quartile, spread.median);
  EXPECT_GE(spread.upper_quartile, spread.median);
  EXPECT_EQ(tables->costs.entries().size(), tables->spreads.size());
}

}  // namespace
}  // namespace ppsim
