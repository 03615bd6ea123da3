#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include "ppsim/verifier/parameterized/all_microbatches.hpp"
#include "support/budget.hpp"
#include "support/generated.hpp"

namespace ppsim::test {
namespace {

constexpr int kMutantsUpTo = 16;  // to where two ranks are looked at number by number

VerifyReport ask_one(const Program& program, Property property) {
  VerifyOptions options;
  options.properties = {property};
  return verify(program, options);
}

/// Every single number says the same as the answer for all.
void check_answer(const AllMicrobatchesResult& result, const ProgramFor& programs) {
  const bool refuted = std::holds_alternative<Refuted>(result.verdict);
  RC_TAG(std::string(verdict_name(result.verdict)));
  for (int m = 1; m <= kMutantsUpTo; ++m) {
    const auto program = programs(m);
    if (!program) continue;
    const bool proved = ask_one(*program, result.property).all_proved();
    if (std::holds_alternative<Proved>(result.verdict)) RC_ASSERT(proved);
    if (refuted && m < result.microbatches) RC_ASSERT(proved);
  }
  if (refuted) RC_ASSERT(!ask_one(programs(result.microbatches).value(), result.property).all_proved());
}

RC_GTEST_PROP(AllMicrobatchesMutants, AreRefutedWhereSomeNumberIsAndProvedWhereNoneIs, ()) {
  const std::string name =
      *rc::gen::element<std::string>("1f1b", "gpipe", "zb-h1", "eager-1f1b", "interleaved-1f1b");
  ScheduleParameters parameters;
  parameters.ranks = *rc::gen::inRange(2, 5);
  LoweringOptions options;
  options.communicators = *rc::gen::element(CommunicatorPolicy::per_edge, CommunicatorPolicy::per_pair,
                                            CommunicatorPolicy::per_rank);
  options.order = *rc::gen::element(IssueOrder::global, IssueOrder::early, IssueOrder::issue_ordered);
  const SwappedKinds swapped{*rc::gen::inRange(0, parameters.ranks), *rc::gen::inRange<std::size_t>(0, 40),
                             *rc::gen::inRange(0, 6)};
  const ProgramFor programs = with_swapped_kinds(programs_of(name, parameters, options), swapped);
  RC_PRE(well_formed_violations(programs(kMutantsUpTo).value()).empty());
  AllMicrobatchesOptions asked;
  asked.sample_limit = 1'600'000;
  asked.timeout_s = kNoTimeLimit_s;
  const SolverBudget budget(1'000'000);
  const AllMicrobatchesReport report = verify_all_microbatches(programs, asked).value();
  for (const AllMicrobatchesResult& result : report.results) {
    if (result.property == Property::matched || report.find(Property::matched)->microbatches == 0)
      check_answer(result, programs);
  }
}

}  // namespace
}  // namespace ppsim::test
