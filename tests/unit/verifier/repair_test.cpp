#include "ppsim/verifier/repair/repair.hpp"

#include <gtest/gtest.h>

#include "ppsim/core/ir/transports.hpp"
#include "ppsim/core/lowering/lowering.hpp"
#include "ppsim/schedules/registry.hpp"
#include "support/hand_program.hpp"
#include "support/programs.hpp"

namespace ppsim::test {
namespace {

using Lines = std::vector<std::string>;

/// 1F1B whose receives stand directly before their consumers, without groups.
Program ungrouped_1f1b(int ranks, int microbatches, CommunicatorPolicy policy) {
  const auto schedule = generate("1f1b", {.ranks = ranks, .microbatches = microbatches});
  return *lower(*schedule, {.order = IssueOrder::early, .communicators = policy});
}

Lines lines_of(const std::vector<Change>& changes) {
  Lines lines;
  for (const Change& change : changes) lines.push_back(to_string(change));
  return lines;
}

/// The changes of a repair, once what it leads to is verified again.
Lines repaired(const Program& program, const RepairOptions& options = {}) {
  const RepairAnswer answer = repair(program, options);
  const auto* found = std::get_if<Repaired>(&answer);
  if (found == nullptr) return {"no repair"};
  EXPECT_TRUE(verify(found->program, options.verify).all_proved());
  return lines_of(found->changes);
}

Lines repaired_by(const Program& program, ChangeKind kind) { return repaired(program, {.kinds = {kind}}); }

TEST(Repair, OfDeferredReceivesIsOneChangeOfAnyKind) {
  const Program program = deferred_receives(false);
  EXPECT_EQ(repaired_by(program, ChangeKind::move), Lines{"move rank 0: 0RECV_B0 before 0SEND_F1"});
  EXPECT_EQ(repaired_by(program, ChangeKind::group), Lines{"group rank 1: 1SEND_B0 and 1RECV_F1"});
  EXPECT_EQ(
      repaired_by(program, ChangeKind::split),
      Lines{"give the messages from rank 1 to rank 0 on communicator world a communicator and a queue of "
            "their own"});
  EXPECT_EQ(repaired(program).size(), 1U);
}

TEST(Repair, TakesOneChangeForEachPairOfRanksOfUngrouped1F1B) {
  for (const CommunicatorPolicy policy : {CommunicatorPolicy::per_rank, CommunicatorPolicy::per_pair}) {
    const Lines changes = repaired(ungrouped_1f1b(5, 12, policy));
    ASSERT_EQ(changes.size(), 4U);
    for (const std::string& change : changes) EXPECT_EQ(change.rfind("give the messages", 0), 0U) << change;
  }
}

TEST(Repair, LeavesAProgramThatRunsAsItIs) {
  const RepairAnswer answer = repair(two_rank_step());
  EXPECT_TRUE(std::get<Repaired>(answer).changes.empty());
  EXPECT_EQ(std::get<Repaired>(answer).program, two_rank_step());
}

TEST(Repair, MovesWhatTheHostBlocksOn) {
  HandProgram p{chain_spec(2, 2, 1), communicators({{0, 1}, {0, 1}})};
  p.rows = {{"0RECV_B0@1 !", "0F0", "0SEND_F0@0", "0B0"}, {"1RECV_F0@0", "1F0", "1B0", "1SEND_B0@1"}};
  EXPECT_EQ(repaired(p.build()), Lines{"move rank 0: 0RECV_B0 behind 0SEND_F0"});
}

TEST(Repair, MovesAReceiveBeforeTheBlockingActionThatNeedsIt) {
  HandProgram p{chain_spec(2, 2, 1), communicators({{0, 1}, {0, 1}})};
  p.rows = {{"0F0", "0SEND_F0@0", "0RECV_B0@1", "0B0"}, {"1F0 !", "1RECV_F0@0", "1B0", "1SEND_B0@1"}};
  EXPECT_EQ(repaired(p.build()), Lines{"move rank 1: 1RECV_F0 before 1F0"});
}

TEST(Repair, GroupsNothingWithWhatItComesAfter) {
  HandProgram p{chain_spec(2, 2, 2), communicators({{0, 1}, {0, 1}})};
  p.rows = {{"0F0", "0F1", "0SEND_F0@0 after 3", "0SEND_F1@0", "0RECV_B0@1", "0B0", "0RECV_B1@1", "0B1"},
            {"1RECV_F0@0", "1RECV_F1@0", "1F0", "1F1", "1B0", "1SEND_B0@1", "1B1", "1SEND_B1@1"}};
  EXPECT_EQ(repaired(p.build()), Lines{"no repair"});
}

/// `a` waits for a SEND of rank 0 that follows `b`, and `b` follows `a` on rank 2. That the two
/// change places there ends the hang, but then ranks 0 and 2 have them in different orders.
Program collectives_in_a_cycle() {
  PipelineSpec spec = chain_spec(3, 2, 1);
  spec.collectives = {{"a", {RankId(0), RankId(1), RankId(2)}, {OpKind::forward, {StageId(1)}}},
                      {"b", {RankId(0), RankId(2)}},
                      {"c", {RankId(0)}}};
  HandProgram p{spec, communicators({{0, 1}, {0, 1}, {0, 1, 2}, {0, 2}, {0}})};
  p.rows = {{"0F0", "0COLL0@2", "1COLL@3 !", "2COLL@4 !", "0SEND_F0@0", "0RECV_B0@1", "0B0"},
            {"1RECV_F0@0", "1F0", "0COLL0@2", "1B0", "1SEND_B0@1"},
            {"0COLL0@2 !", "1COLL@3"}};
  return p.build();
}

TEST(Repair, LosesNothingThatWasProved) {
  const Program program = collectives_in_a_cycle();
  ASSERT_TRUE(verify(program).proved(Property::collective_order));
  const RepairAnswer answer = repair(program, {.kinds = {ChangeKind::move}});
  const auto& found = std::get<Repaired>(answer);
  EXPECT_EQ(found.changes.size(), 1U);
  EXPECT_TRUE(found.report.all_proved());
}

/// 0SEND_F2 must pass both receives. That it stands before the 0F2 that it waits for is wrong before and
/// after.
TEST(Repair, MovesASendThatStandsBeforeItsPass) {
  HandProgram p{chain_spec(2, 2, 3), communicators({{0, 1}})};
  p.rows = {{"0F0", "0SEND_F0@0", "0F1", "0SEND_F1@0", "0RECV_B0@0", "0RECV_B1@0", "0SEND_F2@0", "0F2", "0B0",
             "0B1", "0RECV_B2@0", "0B2"},
            {"1RECV_F0@0", "1RECV_F1@0", "1RECV_F2@0", "1F0", "1F1", "1F2", "1B0", "1SEND_B0@0", "1B1",
             "1SEND_B1@0", "1B2", "1SEND_B2@0"}};
  const RepairAnswer answer = repair(p.build(), {.kinds = {ChangeKind::move}});
  const auto* found = std::get_if<Repaired>(&answer);
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(lines_of(found->changes), Lines{"move rank 0: 0SEND_F2 before 0RECV_B0"});
}

/// 1F1 holds up the launch of what follows it and waits for a receive that comes after them.
TEST(Repair, MovesAReceiveThatFollowsWhatIsLaunchedAfterItsPass) {
  HandProgram p{chain_spec(2, 2, 2), communicators({{0, 1}, {0, 1}})};
  p.rows = {{"0F0", "0SEND_F0@0", "0F1", "0SEND_F1@0", "0RECV_B0@1", "0B0", "0RECV_B1@1", "0B1"},
            {"1RECV_F0@0", "1F0", "1F1", "1B0", "1SEND_B0@1", "1RECV_F1@0", "1B1", "1SEND_B1@1"}};
  RepairOptions options;
  options.verify.capabilities = transport("nccl").value();
  const RepairAnswer answer = repair(p.build(), options);
  const auto* found = std::get_if<Repaired>(&answer);
  ASSERT_NE(found, nullptr);
  EXPECT_TRUE(found->report.proved(Property::deadlock_free));
  EXPECT_EQ(found->still_refuted(), std::vector{Property::well_formed});
}

TEST(Repair, DropsWhatAMovedReceiveCameAfter) {
  HandProgram p{chain_spec(2, 2, 2), communicators({{0, 1}})};
  p.rows = {{"0F0", "0SEND_F0@0", "0F1", "0SEND_F1@0", "0RECV_B0@0 after 2", "0B0", "0RECV_B1@0", "0B1"},
            {"1RECV_F0@0", "1F0", "1B0", "1SEND_B0@0", "1RECV_F1@0", "1F1", "1B1", "1SEND_B1@0"}};
  RepairOptions options{.kinds = {ChangeKind::move}};
  const RepairAnswer answer = repair(p.build(), options);
  const auto& found = std::get<Repaired>(answer);
  ASSERT_EQ(found.changes.size(), 1U);
  EXPECT_TRUE(found.report.all_proved());
}

TEST(Repair, NamesACycleThatNothingBreaks) {
  HandProgram p{chain_spec(2, 2, 1), communicators({{0, 1}, {0, 1}})};
  p.rows = {{"0RECV_B0@1", "0F0 after 0", "0SEND_F0@0", "0B0"}, {"1RECV_F0@0", "1F0", "1B0", "1SEND_B0@1"}};
  const RepairAnswer answer = repair(p.build());
  EXPECT_EQ(std::get<NoRepair>(answer).why,
            (Lines{"none of the changes asked for breaks this cycle of waits:",
                   "rank 0: 0RECV_B0, 0F0, 0SEND_F0, rank 1: 1RECV_F0, 1F0, 1B0, 1SEND_B0"}));
  EXPECT_EQ(std::get<NoRepair>(fewest_credits(p.build(), {})).why, Lines{"no number of credits helps"});
}

TEST(Repair, NamesTheCyclesThatGroupsCannotBreakTogether) {
  const auto schedule = generate("interleaved-1f1b", {.ranks = 4, .microbatches = 8, .chunks = 2});
  const Program program =
      *lower(*schedule, {.order = IssueOrder::early, .communicators = CommunicatorPolicy::per_pair});
  const RepairAnswer answer = repair(program, {.kinds = {ChangeKind::group}});
  const Lines& why = std::get<NoRepair>(answer).why;
  EXPECT_EQ(why.front(), "the changes asked for cannot break these cycles of waits together:");
  EXPECT_GE(why.size(), 3U);
}

TEST(Repair, SaysWhatIsMissingRatherThanMisplaced) {
  HandProgram p{chain_spec(2, 2, 1), communicators({{0, 1}, {0, 1}})};
  p.rows = {{"0F0", "0SEND_F0@0", "0RECV_B0@1", "0B0"}, {"1F0", "1B0", "1SEND_B0@1"}};
  EXPECT_EQ(std::get<NoRepair>(repair(p.build())).why,
            (Lines{"this is no matter of order between messages that have both ends:",
                   "rank 0 has 0SEND_F0, and rank 1 lacks its 1RECV_F0 on communicator c0",
                   "rank 1: 1F0 needs 1RECV_F0<0, which is not on the rank"}));
  p.rows[1] = {"1RECV_F0@0", "1F0", "1B0", "1SEND_B0@1", "1SEND_B0@1"};
  EXPECT_EQ(absences(p.build()),
            Lines{"rank 1 has 1SEND_B0, and rank 0 lacks its 0RECV_B0 on communicator c1"});
}

TEST(Repair, TellsAMismatchOfOrderFromOneOfContent) {
  HandProgram p{chain_spec(2, 2, 2), communicators({{0, 1}, {0, 1}})};
  p.rows = {{"0F0", "0SEND_F0@0", "0F1", "0SEND_F1@0"}, {"1RECV_F1@0", "1RECV_F0@0", "1F0", "1F1"}};
  EXPECT_EQ(
      absences(p.build()),
      Lines{"rank 0 sends 0SEND_F0 where rank 1 expects 1RECV_F1 on communicator c0: both name the same "
            "messages, in different orders"});
  EXPECT_TRUE(absences(deferred_receives(false)).empty());
}

TEST(Repair, IsUnknownUnderAResidencyLimitAndOutOfTime) {
  RepairOptions options;
  options.verify.timeout_s = 0;
  EXPECT_EQ(std::get<Unknown>(repair(deferred_receives(false), options)).reason, "time limit reached");
  options.verify.capabilities.residency = 1;
  EXPECT_TRUE(std::holds_alternative<Unknown>(repair(two_rank_step(), options)));
}

TEST(FewestCredits, OfUngrouped1F1BAreOnOneChannelOfEachPairOfRanks) {
  for (int ranks = 2; ranks <= 6; ++ranks) {
    for (const CommunicatorPolicy policy : {CommunicatorPolicy::per_rank, CommunicatorPolicy::per_pair}) {
      const auto answer = fewest_credits(ungrouped_1f1b(ranks, 3 * ranks, policy), {});
      const auto& found = std::get<FewestCredits>(answer);
      EXPECT_EQ(found.everywhere, 1);
      EXPECT_EQ(found.channels.size(), static_cast<std::size_t>(ranks - 1));
    }
  }
}

TEST(FewestCredits, CountsTheMessagesThatMustBeOut) {
  HandProgram p{chain_spec(2, 2, 3), communicators({{0, 1}})};
  p.rows = {{"0F0", "0F1", "0F2", "0SEND_F0@0", "0SEND_F1@0", "0SEND_F2@0", "0RECV_B0@0", "0B0", "0RECV_B1@0",
             "0B1", "0RECV_B2@0", "0B2"},
            {"1RECV_F0@0", "1F0", "1B0", "1SEND_B0@0", "1RECV_F1@0", "1F1", "1B1", "1SEND_B1@0", "1RECV_F2@0",
             "1F2", "1B2", "1SEND_B2@0"}};
  const auto answer = fewest_credits(p.build(), {});
  const auto& found = std::get<FewestCredits>(answer);
  EXPECT_EQ(found.everywhere, 1);
  // Two activations out, two gradients, or one of each.
  int credits = 0;
  for (const Change& change : found.channels) credits += change.credits;
  EXPECT_EQ(credits, 2);
  EXPECT_EQ(std::get<FewestCredits>(fewest_credits(two_rank_step(), {})), FewestCredits{});
}

}  // namespace
}  // namespace ppsim::test
