#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include "ppsim/core/execution/naive_executor.hpp"
#include "ppsim/verifier/solver/z3_check.hpp"
#include "ppsim/verifier/verify.hpp"
#include "support/budget.hpp"
#include "support/random_program.hpp"
#include "support/random_schedule.hpp"

namespace ppsim::test {
namespace {

struct DeadlockCase {
  Program program;
  TransportCapabilities capabilities;
};

DeadlockCase draw_deadlock_case(bool residency) {
  const Schedule schedule = *schedules(general_shapes());
  const auto seed = *rc::gen::arbitrary<std::uint64_t>();
  return {random_program(schedule, *rc::gen::inRange(0, 4), seed), random_capabilities(residency, seed)};
}

RC_GTEST_PROP(DeadlockFree, AgreesWithZ3, ()) {
  const DeadlockCase c = draw_deadlock_case(false);
  RC_PRE(c.program.size() < 60);
  VerifyOptions options;
  options.capabilities = c.capabilities;
  const VerifyReport report = verify(c.program, options);
  RC_PRE(report.proved(Property::matched));
  const SolverBudget budget(2'000'000);
  const SolverAnswer answer = deadlock_by_z3({c.program, c.capabilities}, {.timeout_s = kNoTimeLimit_s});
  if (answer.outcome == SolverAnswer::Outcome::unknown) leave_undecided(answer.reason);
  RC_ASSERT(answer.outcome == (report.proved(Property::deadlock_free) ? SolverAnswer::Outcome::deadlock_free
                                                                      : SolverAnswer::Outcome::deadlock));
}

/// Looks at the explanation of a Program that is refuted.
void check_explanation(const DeadlockCase& c, const Deadlock& deadlock) {
  RC_ASSERT(!deadlock.cycle.empty() || !deadlock.culprits.empty());
  const NaiveRun run = run_naively(c.program, c.capabilities, CostTable());
  RC_ASSERT(run.incomplete.size() == deadlock.blocked);
  if (deadlock.cycle.empty()) return;
  const ExecutionGraph graph = build_execution_graph(c.program, c.capabilities);
  RC_ASSERT(recheck_cycle(c.program, graph, deadlock.cycle).has_value());
  for (const Wait& wait : deadlock.cycle) {
    RC_ASSERT(std::binary_search(run.incomplete.begin(), run.incomplete.end(), wait.who.instruction));
  }
}

RC_GTEST_PROP(DeadlockFree, ExplainsWithACycleThatRechecksOrACulprit, ()) {
  const Schedule schedule = *schedules(general_shapes());
  const auto seed = *rc::gen::arbitrary<std::uint64_t>();
  VerifyOptions options;
  options.properties = {Property::deadlock_free};
  options.capabilities = random_capabilities(false, seed);
  // Few mutants of one schedule hang; the property is about those that do.
  for (std::uint64_t attempt = 0; attempt < 30; ++attempt) {
    const DeadlockCase c{random_program(schedule, 3, seed + attempt), options.capabilities};
    const VerifyReport report = verify(c.program, options);
    const auto* refuted = std::get_if<Refuted>(&report.results[0].verdict);
    if (refuted == nullptr) continue;
    return check_explanation(c, std::get<Deadlock>(refuted->counterexample));
  }
  RC_DISCARD("no mutant hangs");
}

RC_GTEST_PROP(DeadlockFree, UnderAResidencyLimitIsWhatExplorationSays, ()) {
  const DeadlockCase c = draw_deadlock_case(true);
  RC_PRE(c.program.size() < 80);
  VerifyOptions options;
  options.capabilities = c.capabilities;
  const VerifyReport report = verify(c.program, options);
  RC_PRE(report.proved(Property::matched));
  const auto hangs = can_deadlock(c.program, c.capabilities, 20'000);
  if (!hangs) leave_undecided("more than 20,000 states");
  RC_ASSERT(report.proved(Property::deadlock_free) == !*hangs);
}

}  // namespace
}  // namespace ppsim::test
