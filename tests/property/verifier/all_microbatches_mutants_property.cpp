#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include "ppsim/verifier/all_microbatches.hpp"
#include "support/generated.hpp"

namespace ppsim::test {
namespace {

/// How a rank's list differs from the schedule's, alike for every number of microbatches: two kinds of
/// instructions change places wherever one stands directly before the other, from some microbatch on.
struct Swap {
  int rank = 0;
  std::size_t first = 0;  ///< the kinds are those of this instruction and the next
  int from = 0;
};

bool alike(const Action& a, const Action& b) {
  return a.kind == b.kind && a.subject == b.subject && a.peer == b.peer;
}

void apply(const Swap& swap, ProgramDraft& draft) {
  auto& row = draft.rows[RankId(swap.rank)];
  if (swap.first + 1 >= row.size()) return;
  const Action a = row[swap.first].actions.front();
  const Action b = row[swap.first + 1].actions.front();
  for (std::size_t i = 0; i + 1 < row.size(); ++i) {
    const Action& here = row[i].actions.front();
    if (here.microbatch < swap.from || !alike(here, a) || !alike(row[i + 1].actions.front(), b)) continue;
    std::swap(row[i], row[i + 1]);
    ++i;
  }
}

constexpr int kUpTo = 14;

VerifyReport ask_one(const Program& program, Property property) {
  VerifyOptions options;
  options.properties = {property};
  return verify(program, options);
}

/// Every single number says the same as the answer for all.
void check_answer(const AllMicrobatchesResult& result, const ProgramFor& programs) {
  const bool refuted = std::holds_alternative<Refuted>(result.verdict);
  RC_TAG(std::string(verdict_name(result.verdict)));
  for (int m = 1; m <= kUpTo; ++m) {
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
  const Swap swap{*rc::gen::inRange(0, parameters.ranks), *rc::gen::inRange<std::size_t>(0, 40),
                  *rc::gen::inRange(0, 6)};
  const ProgramFor programs =
      changed(programs_of(name, parameters, options), [swap](ProgramDraft& draft, int) {
        // Positions in `after` lists no longer hold; without the lists more orders are possible.
        for (auto& row : draft.rows) {
          for (InstructionDraft& instruction : row) instruction.after.clear();
        }
        apply(swap, draft);
      });
  RC_PRE(well_formed_violations(programs(kUpTo).value()).empty());
  AllMicrobatchesOptions asked;
  asked.sample_limit = 1'600'000;
  const AllMicrobatchesReport report = verify_all_microbatches(programs, asked).value();
  for (const AllMicrobatchesResult& result : report.results) {
    if (result.property == Property::matched || report.find(Property::matched)->microbatches == 0)
      check_answer(result, programs);
  }
}

}  // namespace
}  // namespace ppsim::test
