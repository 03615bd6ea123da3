#include "ppsim/core/execution/naive_executor.hpp"

#include <gtest/gtest.h>

#include "support/naive_runs.hpp"
#include "support/programs.hpp"

namespace ppsim::test {
namespace {

// E1: the host.

TEST(NaiveExecutor, TheHostIssuesWithoutWaiting) {
  EXPECT_EQ(run_step_by_step(alone(2, {"0F0", "0LOAD1", "0F1"})), finished({"0-10 0-15 15-25"}));
}

TEST(NaiveExecutor, TheHostWaitsForABlockingInstruction) {
  EXPECT_EQ(run_step_by_step(alone(2, {"0F0 !", "0LOAD1", "0F1"})), finished({"0-10 10-25 25-35"}));
}

TEST(NaiveExecutor, ATransportThatBlocksIssueHoldsUpComputation) {
  const Program program = two(2, {"0F0", "0SEND_F0@0", "0F1"}, {"1RECV_F0@0", "1F0"}).build();
  EXPECT_EQ(run_step_by_step(program), finished({"0-10 10-13 10-20", "0-13 13-23"}));
  const TransportCapabilities blocking{.issue_blocks = true};
  EXPECT_EQ(run_step_by_step(program, blocking), finished({"0-10 10-13 13-23", "0-13 13-23"}));
}

// E2: queues.

TEST(NaiveExecutor, AQueueRunsInIssueOrder) {
  EXPECT_EQ(run_step_by_step(alone(3, {"0LOAD0", "0F0", "0F1", "0F2"})),
            finished({"0-15 15-25 25-35 35-45"}));
}

TEST(NaiveExecutor, CommunicatorsOfOneQueueSerialise) {
  HandProgram hand = two(2, {"0F0", "0F1", "0SEND_F0@0", "0SEND_F1@1"}, {"1RECV_F0@0", "1RECV_F1@1"});
  EXPECT_EQ(run_step_by_step(hand.build()), finished({"0-10 10-20 10-13 20-23", "0-13 0-23"}));
  hand.rows[0] = {"0F0", "0F1", "0SEND_F1@1", "0SEND_F0@0"};
  hand.rows[1] = {"1RECV_F1@1", "1RECV_F0@0"};
  EXPECT_EQ(run_step_by_step(hand.build()), finished({"0-10 10-20 20-23 10-13", "0-23 0-13"}));
  for (Communicator& communicator : hand.communicators) communicator.queue = 0;
  EXPECT_EQ(run_step_by_step(hand.build()), finished({"0-10 10-20 20-23 23-26", "0-23 23-26"}));
}

// E3: dependencies and `after`.

TEST(NaiveExecutor, AfterHoldsAnInstructionBack) {
  EXPECT_EQ(run_step_by_step(alone(2, {"0F0", "0LOAD1 after 0", "0F1"})), finished({"0-10 10-25 25-35"}));
}

TEST(NaiveExecutor, BackwardWaitsForItsGradient) {
  const Program program =
      two(1, {"0F0", "0SEND_F0@0", "0RECV_B0@1", "0B0"}, {"1RECV_F0@0", "1F0", "1B0", "1SEND_B0@1"}).build();
  EXPECT_EQ(run_step_by_step(program), finished({"0-10 10-13 0-47 47-67", "0-13 13-23 23-43 43-47"}));
}

TEST(NaiveExecutor, WeightsWaitForTheInputGradientOnly) {
  const Program program = two(1, {"0F0", "0SEND_F0@0", "0RECV_B0@1", "0I0", "0W0"},
                              {"1RECV_F0@0", "1F0", "1I0", "1W0", "1SEND_B0@1"})
                              .build();
  EXPECT_EQ(run_step_by_step(program),
            finished({"0-10 10-13 0-39 39-51 51-59", "0-13 13-23 23-35 35-43 35-39"}));
}

TEST(NaiveExecutor, OnOneRankDeliveryIsCompletion) {
  const Program program =
      HandProgram{.pipeline = chain_spec(1, 2, 1), .rows = {{"0F0", "1F0", "1B0", "0B0"}}}.build();
  EXPECT_EQ(run_step_by_step(program), finished({"0-10 10-20 20-40 40-60"}));
}

TEST(NaiveExecutor, AnOverlappedPairWaitsForBothAndEndsAsOne) {
  EXPECT_EQ(run_step_by_step(alone(2, {"0F0", "0LOAD1", "(0F1;0B0)OVERLAP_F_B", "0B1"})),
            finished({"0-10 0-15 15-40 40-60"}));
}

TEST(NaiveExecutor, RecomputeAndReloadComeBeforeTheBackward) {
  EXPECT_EQ(run_step_by_step(alone(1, {"0F0", "0R0", "0B0"})), finished({"0-10 10-19 19-39"}));
  EXPECT_EQ(run_step_by_step(alone(1, {"0F0", "0OFFLOAD0", "0RELOAD0", "0B0"})),
            finished({"0-10 10-23 23-37 37-57"}));
}

TEST(NaiveExecutor, LentActivationsComeBackBeforeTheBackward) {
  const Program program = two(1, {"0F0", "0SEND_A0>1@0", "0RECV_A0<1@1", "0RECV_B0@1", "0B0"},
                              {"0RECV_A0<0@0", "0SEND_A0>0@1", "1B0", "1SEND_B0@1"})
                              .build();
  // 1B0 has no F: it never starts, and the gradient never comes.
  EXPECT_EQ(run_step_by_step(program), deadlock({"0-10 10-15 15-20 x x", "0-15 15-20 x x"}));
  const Program alone_with_store =
      HandProgram{.pipeline = chain_spec(2, 1, 1),
                  .communicators = communicators({{0, 1}, {0, 1}}),
                  .rows = {{"0F0", "0SEND_A0>1@0", "0RECV_A0<1@1", "0B0"}, {"0RECV_A0<0@0", "0SEND_A0>0@1"}}}
          .build();
  EXPECT_EQ(run_step_by_step(alone_with_store), finished({"0-10 10-15 15-20 20-40", "0-15 15-20"}));
}

TEST(NaiveExecutor, ComputationStandsBetweenUnshardAndReshard) {
  EXPECT_EQ(run_step_by_step(alone(1, {"0UNSHARD@0", "0F0", "0RESHARD", "0UNSHARD@0", "0B0", "0RESHARD"})),
            finished({"0-6 6-16 16-16.1 6-12 16.1-36 36-36.1"}));
  EXPECT_EQ(run_step_by_step(alone(2, {"0UNSHARD@0", "0F0", "0RESHARD", "0F1"})),
            deadlock({"0-6 6-16 16-16.1 x"}));
  EXPECT_EQ(run_step_by_step(alone(1, {"0RESHARD"})), deadlock({"x"}));
}

TEST(NaiveExecutor, TheOptimizerWaitsForReducedGradientsAndTheNorm) {
  HandProgram hand{.pipeline = chain_spec(1, 1, 2),
                   .communicators = communicators({{0}, {0}}),
                   .rows = {{"0F0", "0B0", "0F1", "0B1", "0REDUCE_GRAD@0", "0COLL@1", "0OPT0"}}};
  hand.pipeline.collectives = {Collective{"norm", {RankId(0)}}};
  EXPECT_EQ(run_step_by_step(hand.build()), finished({"0-10 10-30 30-40 40-60 60-67 67-69 69-80"}));
}

TEST(NaiveExecutor, AForwardWaitsForItsVersion) {
  HandProgram hand{.pipeline = chain_spec(1, 1, 2),
                   .rows = {{"0F0", "0B0", "0OPT0", "0LOAD1", "0F1", "0B1"}}};
  hand.pipeline.update = {0, 1};
  hand.pipeline.version = {0, 1};
  EXPECT_EQ(run_step_by_step(hand.build()), finished({"0-10 10-30 30-41 0-15 41-51 51-71"}));
  hand.rows = {{"0F0", "0B0", "0LOAD1", "0F1", "0B1"}};
  EXPECT_EQ(run_step_by_step(hand.build()), deadlock({"0-10 10-30 0-15 x x"}));
}

TEST(NaiveExecutor, SlicesRunForwardsAndBackInTurn) {
  HandProgram hand{.pipeline = chain_spec(1, 1, 1), .rows = {{"0F0.0", "0F0.1", "0B0.1", "0B0.0"}}};
  hand.pipeline.slices = 2;
  EXPECT_EQ(run_step_by_step(hand.build()), finished({"0-10 10-20 20-40 40-60"}));
  hand.rows[0] = {"0F0.0", "0F0.1", "0B0.0", "0B0.1"};
  EXPECT_EQ(run_step_by_step(hand.build()), deadlock({"0-10 10-20 x x"}));
}

TEST(NaiveExecutor, TheFirstProviderOfAFactCounts) {
  EXPECT_EQ(run_step_by_step(two(1, {"0F0", "0F0", "0SEND_F0@0"}, {"1RECV_F0@0"}).build()),
            finished({"0-10 10-20 10-13", "0-13"}));
}

TEST(NaiveExecutor, WhatIsMisplacedOrLacksItsProducerNeverStarts) {
  EXPECT_EQ(run_step_by_step(two(1, {"1F0"}, {"1F0"}).build()), deadlock({"x", "x"}));
  EXPECT_EQ(run_step_by_step(two(1, {"0SEND_F0@0"}, {"1RECV_F0@0"}).build()), deadlock({"x", "x"}));
}

TEST(NaiveExecutor, AnInstructionThatWaitsForItselfNeverStarts) {
  EXPECT_EQ(run_step_by_step(alone(1, {"0F0 after 0"})), deadlock({"x"}));
  EXPECT_EQ(run_step_by_step(alone(1, {"(0F0;0B0)OVERLAP_F_B"})), deadlock({"x"}));
}

// E4: channels.

TEST(NaiveExecutor, AMismatchEndsTheMeaning) {
  const Program crossed =
      two(2, {"0F0", "0F1", "0SEND_F0@0", "0SEND_F1@0"}, {"1RECV_F1@0", "1RECV_F0@0"}).build();
  const NaiveRun result = run_naively(crossed, rendezvous(), costs_of_kinds());
  EXPECT_EQ(result.outcome, NaiveRun::Outcome::mismatch);
  EXPECT_EQ(result.incomplete.size(), crossed.size());
  EXPECT_EQ(run_step_by_step(crossed).ranks, (std::vector<std::string>{"x x x x", "x x"}));
  const Program apart =
      two(2, {"0F0", "0F1", "0SEND_F0@0", "0SEND_F1@1"}, {"1RECV_F1@1", "1RECV_F0@0"}).build();
  EXPECT_EQ(run_step_by_step(apart).outcome, NaiveRun::Outcome::finished);
}

TEST(NaiveExecutor, ASurplusEndIsNoMismatch) {
  EXPECT_EQ(run_step_by_step(two(2, {"0F0", "0F1", "0SEND_F0@0", "0SEND_F1@0"}, {"1RECV_F0@0"}).build()),
            deadlock({"0-10 10-20 10-13 x", "0-13"}));
  EXPECT_EQ(run_step_by_step(two(1, {}, {"1RECV_F0@0"}).build()), deadlock({"", "x"}));
}
// Rounds.

TEST(NaiveExecutor, ZeroDurationWorkCompletesInTheNextRound) {
  EXPECT_EQ(run_step_by_step(two_rank_step(), rendezvous(), CostTable()),
            finished({"0-0.1 0.1-0.2 0-0.5 0.5-0.6", "0-0.2 0.2-0.3 0.3-0.4 0.4-0.5"}));
}

TEST(NaiveExecutor, BothEndsOfAMessageEndInTheSameRound) {
  const NaiveRun result = run_naively(two_rank_step(), rendezvous(), costs_of_kinds());
  EXPECT_EQ(result.trace.spans[InstructionId(1)].end, result.trace.spans[InstructionId(4)].end);
  EXPECT_EQ(result.trace.spans[InstructionId(2)].end, result.trace.spans[InstructionId(7)].end);
}

}  // namespace
}  // namespace ppsim::test
