// A run in the order of the lists, and what is read in its trace, against what is compiled and worked out
// from costs.

#include "ppsim/simulator/engine/list_run.hpp"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <limits>
#include <map>
#include <optional>

#include "metrics/message_times.hpp"
#include "ppsim/core/ir/inference.hpp"
#include "ppsim/core/ir/transports.hpp"
#include "ppsim/core/lowering/lowering.hpp"
#include "ppsim/schedules/registry.hpp"
#include "support/random_program.hpp"
#include "support/random_schedule.hpp"

namespace ppsim {
namespace {

using simulator::MessageClock;

/// Rendezvous, with launches that are ordered or may be.
TransportCapabilities draw_transport() {
  return transport(*rc::gen::element<std::string>("any", "in-process", "nccl", "nccl-one-queue"),
                   *rc::gen::arbitrary<bool>())
      .value();
}

RC_GTEST_PROP(ListRunProperty, IsTheRunOfTheCompiledProgram, ()) {
  const Schedule schedule = *test::schedules(test::general_shapes());
  const auto seed = *rc::gen::arbitrary<std::uint64_t>();
  const Program program = test::random_program(schedule, *rc::gen::inRange(0, 3), seed);
  CostTable costs = test::random_costs(schedule.pipeline().stages(), seed + 1);
  if (*rc::gen::inRange(0, 4) == 0) {  // perhaps more than fits
    const auto divisor = *rc::gen::inRange<Nanoseconds>(1, 40);
    costs.set({.kind = OpKind::forward}, std::numeric_limits<Nanoseconds>::max() / divisor);
  }
  const AnalyzedProgram analyzed(program, draw_transport());
  const auto run = run_in_list_order(analyzed, costs);
  RC_TAG(!run ? "no answer" : *run ? "times" : "refused");
  if (!run) return;
  const auto compiled = compile(analyzed);
  RC_ASSERT(compiled.has_value());  // it cannot hang
  const auto bound = bind_costs(*compiled, costs);
  RC_ASSERT(run->has_value() == bound.has_value());
  if (bound) RC_ASSERT((**run == simulate_trace(*compiled, analyzed.timed_graph(), *bound)));
}

/// More than take turns at a time.
TEST(ListRun, OfManyRanksIsTheRunOfTheCompiledProgram) {
  const Schedule schedule = generate("1f1b", {.ranks = 200, .microbatches = 210}).value();
  const CostTable costs = test::random_costs(schedule.pipeline().stages(), 1);
  const AnalyzedProgram analyzed(lower(schedule, {}, &costs).value(), any_transport());
  const auto run = run_in_list_order(analyzed, costs);
  ASSERT_TRUE(run && *run);
  const auto compiled = compile(analyzed);
  ASSERT_TRUE(compiled);
  const BoundCosts bound = bind_costs(*compiled, costs).value();
  EXPECT_EQ(**run, simulate_trace(*compiled, analyzed.timed_graph(), bound));
}

RC_GTEST_PROP(ListRunProperty, AnswersForLoweredPrograms, ()) {
  const Schedule schedule = *test::schedules(test::plain_shapes());
  const auto program = lower(schedule, {});
  RC_PRE(program.has_value());
  const AnalyzedProgram analyzed(*program, any_transport());
  RC_PRE(analyzed.finishes());
  RC_ASSERT(run_in_list_order(analyzed, CostTable()).has_value());
}

RC_GTEST_PROP(MessageClockProperty, ReadsInTheTraceWhatTheCostsSay, ()) {
  const Schedule schedule = *test::schedules(test::general_shapes());
  const auto seed = *rc::gen::arbitrary<std::uint64_t>();
  const AnalyzedProgram analyzed(test::random_program(schedule, *rc::gen::inRange(0, 3), seed),
                                 test::random_capabilities(*rc::gen::arbitrary<bool>(), seed + 2));
  const CostTable costs = test::random_costs(schedule.pipeline().stages(), seed + 1);
  const SimulatedRun run = simulate_beside_transfers(analyzed, {costs, CostTable()}).value();
  RC_PRE(run.has_value());
  const SizeTable sizes;
  const TimedRun timed{analyzed, *run, costs, sizes};
  const auto expected = simulator::message_times_by_costs(timed);
  const MessageClock clock(timed);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (timed.graph.messages[i].complete()) RC_ASSERT((clock(i) == expected[i]));
  }
}

/// By its definition, instant by instant.
int live_at_most(const Program& program, const TimedTrace& trace, RankId rank) {
  std::map<Action, std::pair<std::optional<Instant>, std::optional<Instant>>> lives;
  for (InstructionId id = program.first(rank); id < program.last(rank); id = next(id)) {
    for (const Action& action : program.actions(id)) {
      auto& [from, to] = lives[make_action(OpKind::forward, action.subject, action.microbatch, action.slice)];
      const bool forward = action.kind == OpKind::forward;
      if (forward) from = std::min(from.value_or(trace.spans[id].start), trace.spans[id].start);
      if (trains(program, rank) ? gives_weight_gradient(action.kind) : forward)
        to = std::max(to.value_or(trace.spans[id].end), trace.spans[id].end);
    }
  }
  int most = 0;
  for (const auto& [key, at] : lives) {
    int live = 0;
    for (const auto& [other, life] : lives) {
      live +=
          at.first && life.first && *life.first <= *at.first && (!life.second || *at.first < *life.second);
    }
    most = std::max(most, live);
  }
  return most;
}

RC_GTEST_PROP(LiveActivationsProperty, AreThoseBetweenStartAndEnd, ()) {
  const Schedule schedule = *test::schedules(test::general_shapes());
  const auto seed = *rc::gen::arbitrary<std::uint64_t>();
  const Program program = test::random_program(schedule, 0, seed);
  const SimulatedRun run =
      simulate_program(program, rendezvous(), test::random_costs(schedule.pipeline().stages(), seed + 1))
          .value();
  RC_PRE(run.has_value());
  const IdVector<RankId, int> peaks = peak_live_activations(program, *run);
  for (RankId rank(0); rank.value() < program.pipeline().ranks(); rank = next(rank))
    RC_ASSERT(peaks[rank] == live_at_most(program, *run, rank));
}

}  // namespace
}  // namespace ppsim
