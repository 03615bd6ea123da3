// The step-by-step executor: transfers, groups, collectives, residency.

#include <gtest/gtest.h>

#include "ppsim/core/execution/naive_executor.hpp"
#include "ppsim/core/io/trace_csv.hpp"
#include "support/naive_runs.hpp"
#include "support/programs.hpp"

namespace ppsim::test {
namespace {

// E5: rendezvous and credits.

TEST(NaiveExecutor, RendezvousBeginsWhenBothEndsHaveStarted) {
  const Program late = two(2, {"0F0", "0SEND_F0@0"}, {"1RECV_F0@0 after 1", "1LOAD0"}).build();
  EXPECT_EQ(run_step_by_step(late).outcome,
            NaiveRun::Outcome::deadlock);  // 1 is no first stage: its LOAD is misplaced
  const Program program =
      two(1, {"0F0", "0SEND_F0@0", "0RECV_B0@1"}, {"1RECV_F0@0", "1F0", "1B0", "1SEND_B0@1"}).build();
  EXPECT_EQ(run_step_by_step(program), finished({"0-10 10-13 0-47", "0-13 13-23 23-43 43-47"}));
}

/// The receiver computes another microbatch before it takes the second message.
Program busy_receiver() {
  return two(3, {"0F0", "0SEND_F0@0", "0F1", "0SEND_F1@0", "0F2", "0SEND_F2@0"},
             {"1RECV_F0@0", "1F0", "1RECV_F1@0 after 1", "1RECV_F2@0"})
      .build();
}

TEST(NaiveExecutor, RendezvousHoldsTheSenderUp) {
  EXPECT_EQ(run_step_by_step(busy_receiver()),
            finished({"0-10 10-13 10-20 20-26 20-30 30-33", "0-13 13-23 23-26 26-33"}));
}

TEST(NaiveExecutor, CreditsLetTheSenderGo) {
  // The second message is out at 23, when its RECV starts: receiving what has arrived takes no time.
  EXPECT_EQ(run_step_by_step(busy_receiver(), credits(1)),
            finished({"0-10 10-13 10-20 20-23 20-30 30-33", "0-13 13-23 23-23.1 23.1-33"}));
}

TEST(NaiveExecutor, ASendWithoutCreditWaitsForAReceipt) {
  const Program program = two(3, {"0F0", "0SEND_F0@0", "0F1", "0SEND_F1@0", "0F2", "0SEND_F2@0"},
                              {"1RECV_F0@0", "1F0", "1RECV_F1@0 after 3", "1F1", "1RECV_F2@0"})
                              .build();
  // 1RECV_F1 waits for 1F1, which waits for 1RECV_F1: the receiver is stuck, the sender is not.
  EXPECT_EQ(run_step_by_step(program), deadlock({"0-10 10-13 10-20 x 20-30 x", "0-13 13-23 x x x"}));
  EXPECT_EQ(run_step_by_step(program, credits(1)),
            deadlock({"0-10 10-13 10-20 20-23 20-30 x", "0-13 13-23 x x x"}));
  EXPECT_EQ(run_step_by_step(program, credits(2)),
            deadlock({"0-10 10-13 10-20 20-23 20-30 30-33", "0-13 13-23 x x x"}));
}

TEST(NaiveExecutor, ACreditIsFreeWhenItsMessageIsReceived) {
  const Program program =
      two(2, {"0F0", "0SEND_F0@0", "0F1", "0SEND_F1@0"}, {"1RECV_F0@0 after 2", "1RECV_F1@0", "1RESHARD"})
          .build();
  EXPECT_EQ(run_step_by_step(program, credits(1)).outcome, NaiveRun::Outcome::deadlock);
  const Program slow = two(3, {"0F0", "0SEND_F0@0", "0F1", "0SEND_F1@0", "0F2", "0SEND_F2@0"},
                           {"1RECV_F0@0", "1F0", "1B0", "1RECV_F1@0 after 2", "1RECV_F2@0"})
                           .build();
  // 1RECV_F1 starts at 43. Message 1 is out at 23; message 2 has its credit in round 1 of 43.
  EXPECT_EQ(run_step_by_step(slow, credits(1)),
            finished({"0-10 10-13 10-20 20-23 20-30 30-46", "0-13 13-23 23-43 43-43.1 43.1-46"}));
  EXPECT_EQ(run_step_by_step(slow, credits(2)),
            finished({"0-10 10-13 10-20 20-23 20-30 30-33", "0-13 13-23 23-43 43-43.1 43.1-43.2"}));
}

TEST(NaiveExecutor, DeferredReceivesNeedDirectedQueues) {
  EXPECT_EQ(run_step_by_step(deferred_receives(false)).outcome, NaiveRun::Outcome::deadlock);
  EXPECT_EQ(run_step_by_step(deferred_receives(true)).outcome, NaiveRun::Outcome::finished);
  EXPECT_EQ(run_step_by_step(deferred_receives(false), credits(1)).outcome, NaiveRun::Outcome::finished);
}

// E6: groups.

TEST(NaiveExecutor, AGroupWaitsForAllMembersAndEndsWithTheLast) {
  const Program program = HandProgram{
      .pipeline = chain_spec(3, 3, 2),
      .communicators = communicators({{0, 1}, {1, 2}, {1, 2}, {0, 1}}),
      .rows = {{"0F0", "0SEND_F0@0", "0F1", "0SEND_F1@0"},
               {"1RECV_F0@0", "1F0", "{1RECV_F1@0 1SEND_F0@1}", "1F1"},
               {"2RECV_F0@1",
                "2F0"}}}.build();
  // The group starts at 23 with 1F0; its RECV ends at 26 with message 1, its SEND at 26 too.
  EXPECT_EQ(run_step_by_step(program),
            finished({"0-10 10-13 10-20 20-26", "0-13 13-23 23-26 26-36", "0-26 26-36"}));
}

TEST(NaiveExecutor, WhatDependsOnAMemberWaitsForTheGroup) {
  CostTable table = costs_of_kinds();
  table.set({.kind = OpKind::send_forward, .subject = 1}, 30);
  const Program program = HandProgram{
      .pipeline = chain_spec(3, 3, 2),
      .communicators = communicators({{0, 1}, {1, 2}}),
      .rows = {
          {"0F0", "0SEND_F0@0", "0F1", "0SEND_F1@0"},
          {"1RECV_F0@0", "1F0", "{1RECV_F1@0 1SEND_F0@1}", "1F1"},
          {"2RECV_F0@1"}}}.build();
  EXPECT_EQ(run_step_by_step(program, rendezvous(), table),
            finished({"0-10 10-13 10-20 20-26", "0-13 13-23 23-53 53-63", "0-53"}));
}

/// Its first member is received all the same.
TEST(NaiveExecutor, AGroupThatNeverEndsHasStarted) {
  const Program program = two(2, {"0F0", "0F1", "{0SEND_F0@0 0SEND_F1@1}"}, {"1RECV_F0@0"}).build();
  EXPECT_EQ(run_step_by_step(program), deadlock({"0-10 10-20 x", "0-23"}));
  const NaiveRun run = run_naively(program, rendezvous(), costs_of_kinds());
  EXPECT_EQ(run.trace.spans[InstructionId(2)], (Span{{20, 0}, {-1, 0}}));
  EXPECT_EQ(trace_violations({program, rendezvous()}, run.trace), std::vector<Violation>());
}

TEST(NaiveExecutor, MembersOnOneChannelGoInOrder) {
  const Program program =
      two(2, {"0F0", "0F1", "{0SEND_F0@0 0SEND_F1@0}"}, {"1RECV_F0@0", "1RECV_F1@0"}).build();
  EXPECT_EQ(run_step_by_step(program), finished({"0-10 10-20 20-26", "0-23 23-26"}));
  const Program apart =
      two(2, {"0F0", "0F1", "{0SEND_F0@0 0SEND_F1@1}"}, {"1RECV_F0@0", "1RECV_F1@1"}).build();
  EXPECT_EQ(run_step_by_step(apart), finished({"0-10 10-20 20-23", "0-23 0-23"}));
}

TEST(NaiveExecutor, CreditsCountMessagesOfAGroupOneByOne) {
  const Program program =
      two(2, {"0F0", "0F1", "{0SEND_F0@0 0SEND_F1@0}"}, {"1RECV_F0@0", "1F0", "1RECV_F1@0 after 1"}).build();
  EXPECT_EQ(run_step_by_step(program, credits(2)), finished({"0-10 10-20 20-26", "0-23 23-33 33-33.1"}));
  EXPECT_EQ(run_step_by_step(program, credits(1)), finished({"0-10 10-20 20-26", "0-23 23-33 33-33.1"}));
  const Program stuck = two(2, {"0F0", "0F1", "{0SEND_F0@0 0SEND_F1@0}", "0RECV_B0@1"},
                            {"1RECV_F0@0 after 3", "1RECV_F1@0", "1F0", "1RESHARD"})
                            .build();
  EXPECT_EQ(run_step_by_step(stuck, credits(2)), deadlock({"0-10 10-20 20-26 x", "x x x x"}));
  EXPECT_EQ(run_step_by_step(stuck, credits(1)), deadlock({"0-10 10-20 x x", "x x x x"}));
}

TEST(NaiveExecutor, ExchangesNeedAGroup) {
  HandProgram hand = two(2, {"0F0", "0F1", "0SEND_F0@0", "0RECV_B0@0", "0SEND_F1@0"},
                         {"1RECV_F0@0", "1F0", "1B0", "1RECV_F1@0", "1SEND_B0@0"});
  EXPECT_EQ(run_step_by_step(hand.build()).outcome, NaiveRun::Outcome::deadlock);
  hand.rows = {{"0F0", "0F1", "0SEND_F0@0", "{0RECV_B0@0 0SEND_F1@0}"},
               {"1RECV_F0@0", "1F0", "1B0", "{1RECV_F1@0 1SEND_B0@0}"}};
  // The two messages are on two channels, so they do not wait for each other.
  EXPECT_EQ(run_step_by_step(hand.build()), finished({"0-10 10-20 10-13 20-47", "0-13 13-23 23-43 43-47"}));
}

// E7: collectives.

HandProgram with_barriers(std::vector<std::string> first, std::vector<std::string> second) {
  HandProgram hand = two(1, std::move(first), std::move(second));
  const std::vector<RankId> both = {RankId(0), RankId(1)};
  hand.pipeline.collectives = {Collective{"a", both}, Collective{"b", both}};
  return hand;
}

TEST(NaiveExecutor, CollectivesBeginWhenAllMembersHaveStarted) {
  EXPECT_EQ(run_step_by_step(with_barriers({"0F0", "0COLL@0 after 0"}, {"0COLL@0"}).build()),
            finished({"0-10 10-12", "0-12"}));
}

TEST(NaiveExecutor, CollectivesMeetInIssueOrderOfTheirCommunicator) {
  EXPECT_EQ(run_step_by_step(with_barriers({"0COLL@0", "1COLL@0"}, {"1COLL@0", "0COLL@0"}).build()).outcome,
            NaiveRun::Outcome::mismatch);
  EXPECT_EQ(run_step_by_step(with_barriers({"0COLL@0", "1COLL@1"}, {"1COLL@1", "0COLL@0"}).build()),
            finished({"0-2 0-2", "0-2 0-2"}));
  EXPECT_EQ(run_step_by_step(with_barriers({"0COLL@0", "1COLL@0"}, {"0COLL@0"}).build()),
            deadlock({"0-2 x", "0-2"}));
}

// E8: residency.

TEST(NaiveExecutor, AResidencyLimitMakesOperationsQueueUp) {
  const Program program =
      two(2, {"0F0", "0F1", "0SEND_F0@0", "0SEND_F1@1"}, {"1RECV_F1@1", "1RECV_F0@0"}).build();
  EXPECT_EQ(run_step_by_step(program), finished({"0-10 10-20 10-13 20-23", "0-23 0-13"}));
  EXPECT_EQ(run_step_by_step(program, {.residency = 2}), finished({"0-10 10-20 10-13 20-23", "0-23 0-13"}));
  // One place: the RECV of microbatch 1 takes it first and the SEND of microbatch 0 the other.
  EXPECT_EQ(run_step_by_step(program, {.residency = 1}), deadlock({"0-10 10-20 x x", "x x"}));
}

TEST(CanDeadlock, ExploresTheArbitrations) {
  const Program program =
      two(2, {"0F0", "0F1", "0SEND_F0@0", "0SEND_F1@1"}, {"1RECV_F1@1", "1RECV_F0@0"}).build();
  EXPECT_EQ(can_deadlock(program, rendezvous(), 1000), false);
  EXPECT_EQ(can_deadlock(program, {.residency = 2}, 1000), false);
  EXPECT_EQ(can_deadlock(program, {.residency = 1}, 1000), true);
  EXPECT_EQ(can_deadlock(program, {.residency = 1}, 1), std::nullopt);
  EXPECT_EQ(can_deadlock(program, {.residency = 1}, 1000, [] { return true; }), std::nullopt);
}

TEST(CanDeadlock, SeesWhatTheNaiveChoiceMisses) {
  // Lowest position first takes microbatch 0 on both ranks; the other choice on one of them hangs.
  const Program program = two(2, {"0LOAD0", "0LOAD1", "0F0", "0F1", "0SEND_F0@0 after 3", "0SEND_F1@1"},
                              {"1RECV_F0@0", "1RECV_F1@1"})
                              .build();
  EXPECT_EQ(run_step_by_step(program, {.residency = 1}).outcome, NaiveRun::Outcome::finished);
  EXPECT_EQ(can_deadlock(program, {.residency = 1}, 1000), true);
  EXPECT_EQ(can_deadlock(program, {.residency = 2}, 1000), false);
}

TEST(CanDeadlock, WithoutALimitThereIsOneAnswer) {
  EXPECT_EQ(can_deadlock(deferred_receives(false), rendezvous(), 1), true);
  EXPECT_EQ(can_deadlock(deferred_receives(true), rendezvous(), 1), false);
  EXPECT_EQ(can_deadlock(two_rank_step(), {.credits = 1}, 1), false);
}
}  // namespace
}  // namespace ppsim::test
