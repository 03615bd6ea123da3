#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>

#include "ppsim/verifier/parameterized/all_microbatches.hpp"
#include "support/budget.hpp"
#include "support/generated.hpp"

namespace ppsim::test {
namespace {

constexpr int kMutantsUpTo = 24;  // to where each number is looked at by itself

VerifyReport ask_one(const Program& program, Property property) {
  VerifyOptions options;
  options.properties = {property};
  return verify(program, options);
}

/// A schedule that someone has changed.
struct Mutant {
  ProgramFor programs;
  /// From where on the change is the same for every number of the schedule's period: the place is one of the
  /// warm-up then.
  Repetitions repetitions;
};

Mutant draw_mutant() {
  const std::string name =
      *rc::gen::element<std::string>("1f1b", "gpipe", "zb-h1", "eager-1f1b", "interleaved-1f1b");
  ScheduleParameters parameters;
  parameters.ranks = *rc::gen::inRange(2, 5);
  LoweringOptions options;
  options.communicators = *rc::gen::element(CommunicatorPolicy::per_edge, CommunicatorPolicy::per_pair,
                                            CommunicatorPolicy::per_rank);
  options.order = *rc::gen::element(IssueOrder::global, IssueOrder::early, IssueOrder::issue_ordered);
  const SwappedKinds swapped{*rc::gen::inRange(0, parameters.ranks), *rc::gen::inRange<std::size_t>(0, 80),
                             *rc::gen::inRange(0, 6)};
  Mutant mutant{with_swapped_kinds(programs_of(name, parameters, options), swapped), {}};
  mutant.repetitions.queues = repetitions_of(name, parameters).lists;
  mutant.repetitions.queues->from += static_cast<int>(swapped.position) + 2;
  return mutant;
}

AllMicrobatchesReport ask_about(const Mutant& mutant, const Repetitions& repetitions) {
  AllMicrobatchesOptions asked;
  asked.sample_limit = 16'000'000;
  asked.timeout_s = kNoTimeLimit_s;
  asked.repetitions = repetitions;
  const SolverBudget budget(1'000'000);
  return verify_all_microbatches(mutant.programs, asked).value();
}

/// The first number up to `last` that breaks the property; 0: none does.
int first_broken(const ProgramFor& programs, Property property, int last) {
  for (int m = 1; m <= last; ++m) {
    const auto program = programs(m);
    if (program && !ask_one(*program, property).all_proved()) return m;
  }
  return 0;
}

/// Whether the answer says that the number which it refutes need not be the smallest.
bool may_be_smaller(const AllMicrobatchesResult& result) {
  return std::ranges::any_of(result.notes,
                             [](const std::string& note) { return note.ends_with("may break it, too"); });
}

/// Every single number says the same as the answer for all.
void check_answer(const AllMicrobatchesResult& result, const ProgramFor& programs, int last) {
  const bool refuted = std::holds_alternative<Refuted>(result.verdict);
  RC_TAG(std::string(verdict_name(result.verdict)));
  const int broken =
      first_broken(programs, result.property, std::max({last, result.holds_up_to, result.microbatches}));
  if (std::holds_alternative<Proved>(result.verdict)) RC_ASSERT(broken == 0);
  if (refuted && may_be_smaller(result)) RC_ASSERT(broken <= result.microbatches);
  if (refuted && !may_be_smaller(result)) RC_ASSERT(broken == result.microbatches);
  RC_ASSERT(broken == 0 || broken > result.holds_up_to);
}

void check_answers(const AllMicrobatchesReport& report, const ProgramFor& programs, int last) {
  for (const AllMicrobatchesResult& result : report.results) {
    if (result.property == Property::matched || report.find(Property::matched)->microbatches == 0)
      check_answer(result, programs, last);
  }
}

/// Where the change is known to be the same from some number on, the answer is that of every number.
RC_GTEST_PROP(AllMicrobatchesMutants, AreRefutedWhereSomeNumberIsAndProvedWhereNoneIs, ()) {
  const Mutant mutant = draw_mutant();
  RC_PRE(well_formed_violations(mutant.programs(kMutantsUpTo).value()).empty());
  const Repetition& known = *mutant.repetitions.queues;
  check_answers(ask_about(mutant, mutant.repetitions), mutant.programs, known.from + 2 * known.period + 8);
}

RC_GTEST_PROP(AllMicrobatchesMutants, AreNeverProvedOfWhichNothingIsKnown, ()) {
  const Mutant mutant = draw_mutant();
  RC_PRE(well_formed_violations(mutant.programs(kMutantsUpTo).value()).empty());
  const AllMicrobatchesReport report = ask_about(mutant, {});
  for (const AllMicrobatchesResult& result : report.results)
    RC_ASSERT(!std::holds_alternative<Proved>(result.verdict));
  check_answers(report, mutant.programs, kMutantsUpTo);
}

}  // namespace
}  // namespace ppsim::test
