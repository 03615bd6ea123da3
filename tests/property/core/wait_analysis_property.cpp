#include "ppsim/core/execution/wait_analysis.hpp"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>

#include "ppsim/core/execution/naive_executor.hpp"
#include "ppsim/core/execution/well_formed.hpp"
#include "support/random_program.hpp"
#include "support/random_schedule.hpp"

namespace ppsim::test {
namespace {

Program any_matched_program(int max_mutations) {
  const Schedule schedule = *schedules(general_shapes());
  const int mutations = *rc::gen::inRange(0, max_mutations + 1);
  Program program = random_program(schedule, mutations, *rc::gen::arbitrary<std::uint64_t>());
  RC_PRE(match_violations(program).empty());
  return program;
}

TransportCapabilities any_capabilities(bool with_residency) {
  return random_capabilities(with_residency, *rc::gen::arbitrary<std::uint64_t>());
}

RunState run_state(const HungState& hung) {
  return {{hung.started.begin(), hung.started.end()}, {hung.complete.begin(), hung.complete.end()}};
}

/// A wait for nothing else has a reason why it never ends; a wait for another instruction is for
/// something that can still happen, and at the right half of its life.
void check_wait(const WaitAnalysis& analysis, InstructionId id, const InstructionWait& wait) {
  RC_ASSERT(wait.waiter == id);
  RC_ASSERT(delays_start(wait.reason) == !analysis.started(id));
  const bool absent = wait.reason == WaitReason::unsatisfiable || wait.reason == WaitReason::counterpart ||
                      wait.reason == WaitReason::member;
  RC_ASSERT(absent == !wait.waits_for.valid());
  if (absent) return;
  RC_ASSERT(!analysis.complete(wait.waits_for));
  if (!delays_start(wait.reason)) RC_ASSERT(!analysis.started(wait.waits_for));
}

/// Of a state that the naive executor can do nothing in.
void check_stuck(const Program& program, const ExecutionGraph& graph, const HungState& hung) {
  const WaitAnalysis analysis(program, graph, run_state(hung));
  RC_ASSERT(!analysis.can_move());
  for (std::size_t i = 0; i < analysis.size(); ++i) {
    const InstructionId id(static_cast<std::int32_t>(i));
    if (analysis.complete(id)) continue;
    const std::vector<InstructionWait> waits = analysis.waits_of(id);
    RC_ASSERT(!waits.empty());
    for (const InstructionWait& wait : waits) {
      check_wait(analysis, id, wait);
      RC_ASSERT(std::count(waits.begin(), waits.end(), wait) == 1);
      RC_ASSERT(!in_words(program, graph, wait).why.empty());
    }
  }
}

RC_GTEST_PROP(WaitAnalysis, ExplainsWhatTheNaiveExecutorCannotDo, ()) {
  const Program program = any_matched_program(4);
  const TransportCapabilities capabilities = any_capabilities(false);
  const Exploration found = find_hung_state(program, capabilities, 1);
  RC_TAG(found.hung ? "deadlock" : "finished");
  if (!found.hung) return;
  const ExecutionGraph graph = build_execution_graph(program, capabilities);
  RC_ASSERT(run_state(*found.hung) == state_after(run_order(graph), graph.size()));
  check_stuck(program, graph, *found.hung);
}

RC_GTEST_PROP(WaitAnalysis, ExplainsWhatLacksAPlace, ()) {
  const Program program = any_matched_program(1);
  RC_PRE(program.size() < 40);
  const TransportCapabilities capabilities = any_capabilities(true);
  const Exploration found = find_hung_state(program, capabilities, 20'000);
  RC_TAG(found.hung ? "deadlock" : "finished");
  if (found.hung) check_stuck(program, build_execution_graph(program, capabilities), *found.hung);
}

RC_GTEST_PROP(WaitAnalysis, SeesThatARunIsNotOver, ()) {
  const Program program = any_matched_program(4);
  const ExecutionGraph graph = build_execution_graph(program, any_capabilities(false));
  const RunOrder whole = run_order(graph);
  RC_PRE(!whole.items.empty());
  RunOrder part = whole;
  part.items.resize(*rc::gen::inRange<std::size_t>(0, whole.items.size()));
  RC_ASSERT(WaitAnalysis(program, graph, state_after(part, graph.size())).can_move());
  RC_ASSERT(!WaitAnalysis(program, graph, state_after(whole, graph.size())).can_move());
}

}  // namespace
}  // namespace ppsim::test
