// Replayed steps: of random Programs and traces with random delays, against the trace itself and against
// simulations.

#include "ppsim/planner/effects/replay.hpp"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include "ppsim/core/ir/transports.hpp"
#include "ppsim/core/lowering/lowering.hpp"
#include "ppsim/schedules/registry.hpp"
#include "ppsim/simulator/engine/simulate.hpp"
#include "ppsim/simulator/metrics/kind_times.hpp"
#include "support/random_program.hpp"

namespace ppsim {
namespace {

Schedule draw_schedule() {
  const auto name = *rc::gen::element<std::string>("1f1b", "gpipe", "zb-h1", "dualpipe-v");
  const int ranks = 2 * *rc::gen::inRange(1, 3);
  return generate(name, {.ranks = ranks, .microbatches = 2 * ranks + *rc::gen::inRange(0, 4)}).value();
}

AnalyzedProgram draw_program() {
  LoweringOptions options;
  options.optimizer = *rc::gen::arbitrary<bool>();
  options.communicators = *rc::gen::element(CommunicatorPolicy::per_edge, CommunicatorPolicy::per_rank);
  return {lower(draw_schedule(), options).value(),
          *rc::gen::arbitrary<bool>() ? rendezvous() : transport("any").value()};
}

CostTable draw_costs(const AnalyzedProgram& analyzed) {
  return test::random_costs(analyzed.program().pipeline().stages(), *rc::gen::arbitrary<std::uint64_t>());
}

/// A run that nothing explains: everything starts a little late and takes a time of its own.
ReplayCosts draw_replay_costs(const AnalyzedProgram& analyzed) {
  const std::size_t size = analyzed.program().size();
  ReplayCosts costs;
  for (std::size_t i = 0; i < size; ++i) {
    costs.delays.push_back(*rc::gen::inRange<Nanoseconds>(0, 20));
    costs.durations.push_back(*rc::gen::inRange<Nanoseconds>(0, 1000));
  }
  return costs;
}

RC_GTEST_PROP(ReplayProperty, AsItIsItIsTheTraceToTheNanosecond, ()) {
  const AnalyzedProgram analyzed = draw_program();
  const TimedTrace trace = replayed(analyzed, draw_replay_costs(analyzed));
  const TimedTrace again = replayed(analyzed, replay_costs(analyzed, trace));
  RC_ASSERT(again == trace);
}

/// A simulated trace has no delays, and each action takes its cost.
RC_GTEST_PROP(ReplayProperty, OfASimulationItIsTheSimulation, ()) {
  const AnalyzedProgram analyzed{lower(draw_schedule(), {}).value(), rendezvous()};
  const CostTable costs = draw_costs(analyzed);
  const TimedTrace trace = *simulate_beside_transfers(analyzed, {costs, CostTable()}).value();
  const ReplayCosts taken = replay_costs(analyzed, trace);
  for (const Nanoseconds delay : taken.delays) RC_ASSERT(delay == 0);
  RC_ASSERT(trace_span(replayed(analyzed, taken)) == trace_span(trace));
}

/// What is changed in the trace is what changed costs would have been.
RC_GTEST_PROP(ReplayProperty, AChangeIsThatOfTheCosts, ()) {
  const AnalyzedProgram analyzed{lower(draw_schedule(), {}).value(), rendezvous()};
  const CostTable costs = draw_costs(analyzed);
  const OpKind kind = *rc::gen::element(OpKind::forward, OpKind::send_forward);
  CostTable changed;
  for (const auto& [key, cost] : costs.entries()) changed.set(key, key.kind == kind ? 3 * cost : cost);
  const TimedTrace before = *simulate_beside_transfers(analyzed, {costs, CostTable()}).value();
  const TimedTrace after = *simulate_beside_transfers(analyzed, {changed, CostTable()}).value();
  ReplayCosts taken = replay_costs(analyzed, before);
  RC_ASSERT(change(analyzed, {{{CostGroup::What::kind, {.kind = kind}}, 3}}, taken).has_value());
  RC_ASSERT(trace_span(replayed(analyzed, taken)) == trace_span(after));
}

/// A factor above 1 never makes a step shorter.
RC_GTEST_PROP(ReplayProperty, SlowerIsNeverFaster, ()) {
  const AnalyzedProgram analyzed = draw_program();
  ReplayCosts costs = draw_replay_costs(analyzed);
  const Nanoseconds before = trace_span(replayed(analyzed, costs));
  const int rank = *rc::gen::inRange(0, analyzed.program().pipeline().ranks());
  const CostGroup group = cost_group_from_text("rank:" + std::to_string(rank)).value();
  RC_ASSERT(change(analyzed, {{group, 1.5}}, costs).has_value());
  RC_ASSERT(trace_span(replayed(analyzed, costs)) >= before);
}

/// With one cost for each class, another order takes what it is simulated to take.
RC_GTEST_PROP(ReplayProperty, AnotherOrderTakesItsOwnSimulation, ()) {
  const int ranks = *rc::gen::inRange(2, 5);
  const int microbatches = *rc::gen::inRange(2, 8);
  const auto make = [&](const std::string& name) {
    const Schedule schedule = generate(name, {.ranks = ranks, .microbatches = microbatches}).value();
    return AnalyzedProgram(lower(schedule, {}).value(), rendezvous());
  };
  const AnalyzedProgram from = make("gpipe");
  const AnalyzedProgram to = make("1f1b");
  const CostTable costs = draw_costs(from);
  const ReplayCosts taken =
      replay_costs(from, *simulate_beside_transfers(from, {costs, CostTable()}).value());
  const ReplayCosts moved = costs_in_other_order({from, taken}, to).value();
  const TimedTrace simulated = *simulate_beside_transfers(to, {costs, CostTable()}).value();
  RC_ASSERT(trace_span(replayed(to, moved)) == trace_span(simulated));
}

TEST(Replay, ASendThatWaitedForNobodyEndsWhenItDid) {
  const AnalyzedProgram analyzed(lower(generate("1f1b", {.ranks = 2, .microbatches = 4}).value(), {}).value(),
                                 rendezvous());
  TimedTrace trace =
      *simulate_beside_transfers(analyzed, {unit_cost_table({.F = 1, .B = 2, .c = 0.5}), CostTable()})
           .value();
  for (std::size_t i = 0; i < trace.spans.size(); ++i) {
    const InstructionId id(static_cast<std::int32_t>(i));
    if (is_send(analyzed.program().actions(id)[0].kind)) trace.spans[id].end = trace.spans[id].start;
  }
  for (Span& span : trace.spans) span.start.delta = span.end.delta = 0;
  EXPECT_EQ(replayed(analyzed, replay_costs(analyzed, trace)), trace);
}

TEST(Replay, NamesWhatWasNotMeasured) {
  const auto make = [](const std::string& name) {
    return AnalyzedProgram(lower(generate(name, {.ranks = 2, .microbatches = 4}).value(), {}).value(),
                           rendezvous());
  };
  const AnalyzedProgram from = make("1f1b");
  const ReplayCosts costs =
      replay_costs(from, *simulate_beside_transfers(from, {unit_cost_table({}), CostTable()}).value());
  const auto moved = costs_in_other_order({from, costs}, make("zb-h1"));
  ASSERT_FALSE(moved);
  EXPECT_NE(to_string(moved.error()).find("I0 of rank"), std::string::npos) << to_string(moved.error());
}

/// Of a trace without transfers, computation keeps its times.
TEST(Replay, ComputationAloneKeepsItsStep) {
  const AnalyzedProgram analyzed(lower(generate("1f1b", {.ranks = 3, .microbatches = 5}).value(), {}).value(),
                                 rendezvous());
  const TimedTrace whole =
      *simulate_beside_transfers(analyzed, {unit_cost_table({.F = 1, .B = 2, .c = 0.25}), CostTable()})
           .value();
  TimedTrace alone = whole;
  for (std::size_t i = 0; i < alone.spans.size(); ++i) {
    const InstructionId id(static_cast<std::int32_t>(i));
    if (is_communication(analyzed.program().actions(id)[0].kind)) alone.spans[id] = {{-1, 0}, {-1, 0}};
  }
  const TimedTrace again = replayed(analyzed, replay_costs(analyzed, alone));
  EXPECT_EQ(trace_span(again), trace_span(whole));
}

}  // namespace
}  // namespace ppsim
