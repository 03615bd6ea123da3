#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include "ppsim/core/execution/happens_before.hpp"
#include "support/blocked_run.hpp"
#include "support/random_program.hpp"
#include "support/random_schedule.hpp"

namespace ppsim::test {
namespace {

struct Claims {
  std::vector<char> before_start;       ///< per second instruction
  std::vector<char> before_completion;  ///< per second instruction
};

/// The instructions that must wait for `first` to complete: found by running everything else without it.
Claims claims_of(const ExecutionGraph& graph, InstructionId first) {
  Claims claims{std::vector<char>(graph.size(), 1), std::vector<char>(graph.size(), 1)};
  for (const Obstacle& part : parts_of(graph, first)) {
    const BlockedRun run = run_without(graph, part);
    for (std::size_t i = 0; i < graph.size(); ++i) {
      if (run.started[i] != 0) claims.before_start[i] = 0;
      if (run.complete[i] != 0) claims.before_completion[i] = 0;
    }
  }
  return claims;
}

void check_rank(const Program& program, const ExecutionGraph& graph, const HappensBefore& clocks,
                RankId rank) {
  for (int first = program.first(rank).value(); first < program.last(rank).value(); ++first) {
    const Claims claims = claims_of(graph, InstructionId(first));
    for (int second = program.first(rank).value(); second < program.last(rank).value(); ++second) {
      const InstructionId a(first);
      const InstructionId b(second);
      RC_ASSERT(clocks.completes_before_start(a, b) == (claims.before_start[b.index()] != 0));
      RC_ASSERT(clocks.completes_before_completion(a, b) == (claims.before_completion[b.index()] != 0));
    }
  }
}

/// Returns: whether the Program runs to its end.
bool check_all_ranks(const Program& program, const TransportCapabilities& capabilities) {
  const ExecutionGraph graph = build_execution_graph(program, capabilities);
  const RunOrder order = run_order(graph);
  if (!order.complete) return false;
  const ClockPlan plan(graph, order);
  for (int r = 0; r < program.pipeline().ranks(); ++r)
    check_rank(program, graph, HappensBefore::of_rank(program, graph, plan, RankId(r)), RankId(r));
  return true;
}

RC_GTEST_PROP(HappensBefore, IsExactlyWhatHoldsInEveryTiming, ()) {
  const Schedule schedule = *schedules(general_shapes());
  const auto seed = *rc::gen::arbitrary<std::uint64_t>();
  const Program program = random_program(schedule, *rc::gen::inRange(0, 4), seed);
  RC_PRE(program.size() < 120);
  RC_PRE(check_all_ranks(program, random_capabilities(false, seed)));
}

/// A message that waits for a credit comes after all that its receiver waits for.
RC_GTEST_PROP(HappensBefore, CountsWhatCreditsWaitFor, ()) {
  RandomShape shape{.ranks = 2};
  shape.chunks = *rc::gen::inRange(2, 4);
  shape.microbatches = *rc::gen::inRange(2, 4);
  shape.general = *rc::gen::arbitrary<bool>();
  const auto seed = *rc::gen::arbitrary<std::uint64_t>();
  const Schedule schedule = random_schedule(shape, seed);
  const int credits = *rc::gen::inRange(1, 3);
  int finished = 0;
  for (std::uint64_t i = 0; i < 4; ++i)
    finished += check_all_ranks(late_program(schedule, seed + i), {.credits = credits}) ? 1 : 0;
  RC_PRE(finished > 0);
}

}  // namespace
}  // namespace ppsim::test
