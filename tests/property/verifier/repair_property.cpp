// A repair is as small as it says: of moves, compared with every move that there is.

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>

#include "ppsim/core/execution/well_formed.hpp"
#include "ppsim/verifier/repair/repair.hpp"
#include "support/budget.hpp"
#include "support/random_program.hpp"
#include "support/random_schedule.hpp"

namespace ppsim::test {
namespace {

/// Whether some instruction comes after one that follows it: what any move of it mends.
bool comes_after_later(const Program& program) {
  for (std::size_t i = 0; i < program.size(); ++i) {
    const InstructionId id(static_cast<std::int32_t>(i));
    const auto after = program.after(id);
    if (std::ranges::any_of(after, [&](InstructionId on) { return on > id; })) return true;
  }
  return false;
}

bool finishes(const Program& program) {
  return run_order(build_execution_graph(program, rendezvous())).complete;
}

constexpr std::size_t kMaxInstructions = 200;  // of which some thousand moves are tried

/// A Program that hangs although every message has both ends.
Program draw_deadlock() {
  RandomShape shape = *general_shapes();
  shape.ranks = std::max(2, std::min(shape.ranks, 3));
  shape.microbatches = std::min(shape.microbatches, 2);
  auto seed = *rc::gen::arbitrary<std::uint64_t>();
  const int mutations = *rc::gen::inRange(0, 4);
  for (int attempt = 0; attempt < 200; ++attempt, ++seed) {
    Program program = random_program(random_schedule(shape, seed), mutations, seed);
    if (program.size() <= kMaxInstructions && !finishes(program) && absences(program).empty() &&
        !comes_after_later(program))
      return program;
  }
  RC_DISCARD("no deadlock of this shape");
}

RepairAnswer repair_within_budget(const Program& program, RepairOptions options) {
  const SolverBudget budget(1'000'000);
  options.verify.timeout_s = kNoTimeLimit_s;
  RepairAnswer answer = repair(program, options);
  if (std::holds_alternative<Unknown>(answer)) leave_undecided("Z3 has no answer within its budget");
  return answer;
}

/// The list with its item `from` at place `to`; nothing where another item would come after what
/// follows it. The item gives up what it would come after itself.
std::optional<std::vector<InstructionDraft>> with_move(const std::vector<InstructionDraft>& row, int from,
                                                       int to) {
  std::vector<int> order;
  for (int i = 0; i < static_cast<int>(row.size()); ++i) {
    if (i != from) order.push_back(i);
  }
  order.insert(order.begin() + to, from);
  std::vector<int> place(row.size());
  for (std::size_t i = 0; i < order.size(); ++i)
    place[static_cast<std::size_t>(order[i])] = static_cast<int>(i);
  std::vector<InstructionDraft> moved;
  for (const int i : order) {
    InstructionDraft item = row[static_cast<std::size_t>(i)];
    std::vector<int> after;
    for (const int on : item.after) {
      const int now = place[static_cast<std::size_t>(on)];
      if (now < static_cast<int>(moved.size())) {
        after.push_back(now);
      } else if (i != from) {
        return std::nullopt;
      }
    }
    item.after = std::move(after);
    moved.push_back(std::move(item));
  }
  return moved;
}

/// Whether some single move makes the Program run and breaks no rule that it did not break before.
bool one_move_helps(const Program& program) {
  const std::size_t broken = well_formed_violations(program).size();
  const ProgramDraft draft = to_draft(program);
  for (int r = 0; r < program.pipeline().ranks(); ++r) {
    const auto& row = draft.rows[RankId(r)];
    for (int from = 0; from < static_cast<int>(row.size()); ++from) {
      const OpKind kind = row[static_cast<std::size_t>(from)].actions.front().kind;
      if (!is_communication(kind) || kind == OpKind::unshard) continue;
      for (int to = 0; to < static_cast<int>(row.size()); ++to) {
        const auto moved = with_move(row, from, to);
        if (!moved) continue;
        ProgramDraft changed = draft;
        changed.rows[RankId(r)] = *moved;
        const auto built = ProgramBuilder::build(program.pipeline(), changed);
        if (!built || !finishes(*built)) continue;
        if (match_violations(*built).empty() && well_formed_violations(*built).size() <= broken) return true;
      }
    }
  }
  return false;
}

/// Above it nobody asks for sets of several moves: some of them take Z3 minutes.
constexpr std::size_t kMaxForSeveralMoves = 40;  // instructions

RC_GTEST_PROP(Repair, IsOneMoveWhereOneMoveHelps, ()) {
  const Program program = draw_deadlock();
  const bool helps = one_move_helps(program);
  if (!helps && program.size() > kMaxForSeveralMoves) {
    RC_TAG("not asked");
    return;
  }
  RepairOptions options{.kinds = {ChangeKind::move}};
  options.verify.properties = {Property::well_formed, Property::matched, Property::deadlock_free};
  const RepairAnswer answer = repair_within_budget(program, options);
  const auto* found = std::get_if<Repaired>(&answer);
  const bool one = found != nullptr && found->changes.size() == 1;
  RC_TAG(found == nullptr ? "none" : one ? "one" : "more");
  RC_ASSERT(one == helps);
}

RC_GTEST_PROP(Repair, LeadsToAProgramThatIsProved, ()) {
  const Program program = draw_deadlock();
  const VerifyReport before = verify(program);
  const RepairAnswer answer = repair_within_budget(program, {});
  const auto* found = std::get_if<Repaired>(&answer);
  RC_TAG(found == nullptr ? "none" : "repaired");
  if (found == nullptr) return;
  RC_ASSERT(!found->changes.empty());
  const VerifyReport after = verify(found->program);
  RC_ASSERT(after.proved(Property::deadlock_free));
  for (const PropertyResult& result : before.results) {
    if (before.proved(result.property)) RC_ASSERT(after.proved(result.property));
  }
}

RC_GTEST_PROP(FewestCredits, EverywhereAreTheFewestThatFinish, ()) {
  const Program program = draw_deadlock();
  const auto finishes = [&](int credits) {
    return run_order(build_execution_graph(program, {.credits = credits})).complete;
  };
  const CreditsAnswer answer = fewest_credits(program, {});
  const auto* found = std::get_if<FewestCredits>(&answer);
  RC_TAG(found == nullptr ? "none" : "some");
  if (found == nullptr) {
    RC_ASSERT(!finishes(static_cast<int>(program.size())));
    return;
  }
  RC_ASSERT(finishes(found->everywhere));
  RC_ASSERT(found->everywhere == 1 || !finishes(found->everywhere - 1));
  for (const Change& change : found->channels) RC_ASSERT(change.credits >= 1);
  RC_ASSERT(!found->channels.empty());
}

}  // namespace
}  // namespace ppsim::test
