#include "ppsim/core/naive_executor.hpp"

#include <gtest/gtest.h>

#include <sstream>

#include "support/hand_program.hpp"
#include "support/programs.hpp"

namespace ppsim::test {
namespace {

using Outcome = NaiveRun::Outcome;

/// Every kind costs something else, so that sums tell what was waited for.
CostTable costs() {
  CostTable table;
  const std::pair<OpKind, Nanoseconds> entries[] = {
      {OpKind::forward, 10},        {OpKind::backward, 20},
      {OpKind::backward_input, 12}, {OpKind::backward_weight, 8},
      {OpKind::recompute, 9},       {OpKind::overlap, 25},
      {OpKind::send_forward, 3},    {OpKind::send_backward, 4},
      {OpKind::send_activation, 5}, {OpKind::unshard, 6},
      {OpKind::reduce_grad, 7},     {OpKind::collective, 2},
      {OpKind::optimizer, 11},      {OpKind::offload, 13},
      {OpKind::reload, 14},         {OpKind::load, 15}};
  for (const auto& [kind, duration] : entries) table.set({.kind = kind}, duration);
  return table;
}

std::string text(Instant at) {
  return std::to_string(at.time) + (at.round > 0 ? "." + std::to_string(at.round) : "");
}

/// Spans of a rank in list order, `start-end`, rounds after a point, `x` for what did not complete.
std::string spans(const Program& program, int rank, const NaiveRun& run) {
  std::string result;
  for (int i = program.first(RankId(rank)).value(); i < program.last(RankId(rank)).value(); ++i) {
    const Span& span = run.trace.spans[InstructionId(i)];
    if (!result.empty()) result += ' ';
    result += span.end.time < 0 ? "x" : text(span.start) + "-" + text(span.end);
  }
  return result;
}

struct Ran {
  Outcome outcome;
  std::vector<std::string> ranks;
  friend bool operator==(const Ran&, const Ran&) = default;
  friend std::ostream& operator<<(std::ostream& out, const Ran& ran) {
    out << "outcome " << static_cast<int>(ran.outcome);
    for (const std::string& rank : ran.ranks) out << "\n  " << rank;
    return out;
  }
};

Ran run(const Program& program, const TransportCapabilities& capabilities = rendezvous(),
        const CostTable& table = costs()) {
  const NaiveRun result = run_naively(program, capabilities, table);
  Ran ran{result.outcome, {}};
  for (int r = 0; r < program.pipeline().ranks(); ++r) ran.ranks.push_back(spans(program, r, result));
  return ran;
}

Ran finished(std::vector<std::string> ranks) { return {Outcome::finished, std::move(ranks)}; }
Ran deadlock(std::vector<std::string> ranks) { return {Outcome::deadlock, std::move(ranks)}; }

Program alone(int microbatches, std::vector<std::string> row) {
  return HandProgram{.pipeline = chain_spec(1, 1, microbatches),
                     .communicators = communicators({{0}}),
                     .rows = {std::move(row)}}
      .build();
}

/// Two stages on two ranks; communicators 0 and 1 between them.
HandProgram two(int microbatches, std::vector<std::string> first, std::vector<std::string> second) {
  return {.pipeline = chain_spec(2, 2, microbatches),
          .communicators = communicators({{0, 1}, {0, 1}}),
          .rows = {std::move(first), std::move(second)}};
}

TransportCapabilities credits(int n) { return {.credits = n}; }

// E1: the host.

TEST(NaiveExecutor, TheHostIssuesWithoutWaiting) {
  EXPECT_EQ(run(alone(2, {"0F0", "0LOAD1", "0F1"})), finished({"0-10 0-15 15-25"}));
}

TEST(NaiveExecutor, TheHostWaitsForABlockingInstruction) {
  EXPECT_EQ(run(alone(2, {"0F0 !", "0LOAD1", "0F1"})), finished({"0-10 10-25 25-35"}));
}

TEST(NaiveExecutor, ATransportThatBlocksIssueHoldsUpComputation) {
  const Program program = two(2, {"0F0", "0SEND_F0@0", "0F1"}, {"1RECV_F0@0", "1F0"}).build();
  EXPECT_EQ(run(program), finished({"0-10 10-13 10-20", "0-13 13-23"}));
  const TransportCapabilities blocking{.issue_blocks = true};
  EXPECT_EQ(run(program, blocking), finished({"0-10 10-13 13-23", "0-13 13-23"}));
}

// E2: queues.

TEST(NaiveExecutor, AQueueRunsInIssueOrder) {
  EXPECT_EQ(run(alone(3, {"0LOAD0", "0F0", "0F1", "0F2"})), finished({"0-15 15-25 25-35 35-45"}));
}

TEST(NaiveExecutor, CommunicatorsOfOneQueueSerialise) {
  HandProgram hand = two(2, {"0F0", "0F1", "0SEND_F0@0", "0SEND_F1@1"}, {"1RECV_F0@0", "1RECV_F1@1"});
  EXPECT_EQ(run(hand.build()), finished({"0-10 10-20 10-13 20-23", "0-13 0-23"}));
  hand.rows[0] = {"0F0", "0F1", "0SEND_F1@1", "0SEND_F0@0"};
  hand.rows[1] = {"1RECV_F1@1", "1RECV_F0@0"};
  EXPECT_EQ(run(hand.build()), finished({"0-10 10-20 20-23 10-13", "0-23 0-13"}));
  for (Communicator& communicator : hand.communicators) communicator.queue = 0;
  EXPECT_EQ(run(hand.build()), finished({"0-10 10-20 20-23 23-26", "0-23 23-26"}));
}

// E3: dependencies and `after`.

TEST(NaiveExecutor, AfterHoldsAnInstructionBack) {
  EXPECT_EQ(run(alone(2, {"0F0", "0LOAD1 after 0", "0F1"})), finished({"0-10 10-25 25-35"}));
}

TEST(NaiveExecutor, BackwardWaitsForItsGradient) {
  const Program program =
      two(1, {"0F0", "0SEND_F0@0", "0RECV_B0@1", "0B0"}, {"1RECV_F0@0", "1F0", "1B0", "1SEND_B0@1"}).build();
  EXPECT_EQ(run(program), finished({"0-10 10-13 0-47 47-67", "0-13 13-23 23-43 43-47"}));
}

TEST(NaiveExecutor, WeightsWaitForTheInputGradientOnly) {
  const Program program = two(1, {"0F0", "0SEND_F0@0", "0RECV_B0@1", "0I0", "0W0"},
                              {"1RECV_F0@0", "1F0", "1I0", "1W0", "1SEND_B0@1"})
                              .build();
  EXPECT_EQ(run(program), finished({"0-10 10-13 0-39 39-51 51-59", "0-13 13-23 23-35 35-43 35-39"}));
}

TEST(NaiveExecutor, OnOneRankDeliveryIsCompletion) {
  const Program program =
      HandProgram{.pipeline = chain_spec(1, 2, 1), .rows = {{"0F0", "1F0", "1B0", "0B0"}}}.build();
  EXPECT_EQ(run(program), finished({"0-10 10-20 20-40 40-60"}));
}

TEST(NaiveExecutor, AnOverlappedPairWaitsForBothAndEndsAsOne) {
  EXPECT_EQ(run(alone(2, {"0F0", "0LOAD1", "(0F1;0B0)OVERLAP_F_B", "0B1"})),
            finished({"0-10 0-15 15-40 40-60"}));
}

TEST(NaiveExecutor, RecomputeAndReloadComeBeforeTheBackward) {
  EXPECT_EQ(run(alone(1, {"0F0", "0R0", "0B0"})), finished({"0-10 10-19 19-39"}));
  EXPECT_EQ(run(alone(1, {"0F0", "0OFFLOAD0", "0RELOAD0", "0B0"})), finished({"0-10 10-23 23-37 37-57"}));
}

TEST(NaiveExecutor, LentActivationsComeBackBeforeTheBackward) {
  const Program program = two(1, {"0F0", "0SEND_A0>1@0", "0RECV_A0<1@1", "0RECV_B0@1", "0B0"},
                              {"0RECV_A0<0@0", "0SEND_A0>0@1", "1B0", "1SEND_B0@1"})
                              .build();
  // 1B0 has no F: it never starts, and the gradient never comes.
  EXPECT_EQ(run(program), deadlock({"0-10 10-15 15-20 x x", "0-15 15-20 x x"}));
  const Program alone_with_store =
      HandProgram{.pipeline = chain_spec(2, 1, 1),
                  .communicators = communicators({{0, 1}, {0, 1}}),
                  .rows = {{"0F0", "0SEND_A0>1@0", "0RECV_A0<1@1", "0B0"}, {"0RECV_A0<0@0", "0SEND_A0>0@1"}}}
          .build();
  EXPECT_EQ(run(alone_with_store), finished({"0-10 10-15 15-20 20-40", "0-15 15-20"}));
}

TEST(NaiveExecutor, ComputationStandsBetweenUnshardAndReshard) {
  EXPECT_EQ(run(alone(1, {"0UNSHARD@0", "0F0", "0RESHARD", "0UNSHARD@0", "0B0", "0RESHARD"})),
            finished({"0-6 6-16 16-16.1 6-12 16.1-36 36-36.1"}));
  EXPECT_EQ(run(alone(2, {"0UNSHARD@0", "0F0", "0RESHARD", "0F1"})), deadlock({"0-6 6-16 16-16.1 x"}));
  EXPECT_EQ(run(alone(1, {"0RESHARD"})), deadlock({"x"}));
}

TEST(NaiveExecutor, TheOptimizerWaitsForReducedGradientsAndTheNorm) {
  HandProgram hand{.pipeline = chain_spec(1, 1, 2),
                   .communicators = communicators({{0}, {0}}),
                   .rows = {{"0F0", "0B0", "0F1", "0B1", "0REDUCE_GRAD@0", "0COLL@1", "0OPT0"}}};
  hand.pipeline.collectives = {Collective{"norm", {RankId(0)}}};
  EXPECT_EQ(run(hand.build()), finished({"0-10 10-30 30-40 40-60 60-67 67-69 69-80"}));
}

TEST(NaiveExecutor, AForwardWaitsForItsVersion) {
  HandProgram hand{.pipeline = chain_spec(1, 1, 2),
                   .rows = {{"0F0", "0B0", "0OPT0", "0LOAD1", "0F1", "0B1"}}};
  hand.pipeline.update = {0, 1};
  hand.pipeline.version = {0, 1};
  EXPECT_EQ(run(hand.build()), finished({"0-10 10-30 30-41 0-15 41-51 51-71"}));
  hand.rows = {{"0F0", "0B0", "0LOAD1", "0F1", "0B1"}};
  EXPECT_EQ(run(hand.build()), deadlock({"0-10 10-30 0-15 x x"}));
}

TEST(NaiveExecutor, SlicesRunForwardsAndBackInTurn) {
  HandProgram hand{.pipeline = chain_spec(1, 1, 1), .rows = {{"0F0.0", "0F0.1", "0B0.1", "0B0.0"}}};
  hand.pipeline.slices = 2;
  EXPECT_EQ(run(hand.build()), finished({"0-10 10-20 20-40 40-60"}));
  hand.rows[0] = {"0F0.0", "0F0.1", "0B0.0", "0B0.1"};
  EXPECT_EQ(run(hand.build()), deadlock({"0-10 10-20 x x"}));
}

TEST(NaiveExecutor, TheFirstProviderOfAFactCounts) {
  EXPECT_EQ(run(two(1, {"0F0", "0F0", "0SEND_F0@0"}, {"1RECV_F0@0"}).build()),
            finished({"0-10 10-20 10-13", "0-13"}));
}

TEST(NaiveExecutor, WhatIsMisplacedOrLacksItsProducerNeverStarts) {
  EXPECT_EQ(run(two(1, {"1F0"}, {"1F0"}).build()), deadlock({"x", "x"}));
  EXPECT_EQ(run(two(1, {"0SEND_F0@0"}, {"1RECV_F0@0"}).build()), deadlock({"x", "x"}));
}

TEST(NaiveExecutor, AnInstructionThatWaitsForItselfNeverStarts) {
  EXPECT_EQ(run(alone(1, {"0F0 after 0"})), deadlock({"x"}));
  EXPECT_EQ(run(alone(1, {"(0F0;0B0)OVERLAP_F_B"})), deadlock({"x"}));
}

// E4: channels.

TEST(NaiveExecutor, AMismatchEndsTheMeaning) {
  const Program crossed =
      two(2, {"0F0", "0F1", "0SEND_F0@0", "0SEND_F1@0"}, {"1RECV_F1@0", "1RECV_F0@0"}).build();
  const NaiveRun result = run_naively(crossed, rendezvous(), costs());
  EXPECT_EQ(result.outcome, Outcome::mismatch);
  EXPECT_EQ(result.incomplete.size(), crossed.size());
  EXPECT_EQ(run(crossed).ranks, (std::vector<std::string>{"x x x x", "x x"}));
  const Program apart =
      two(2, {"0F0", "0F1", "0SEND_F0@0", "0SEND_F1@1"}, {"1RECV_F1@1", "1RECV_F0@0"}).build();
  EXPECT_EQ(run(apart).outcome, Outcome::finished);
}

TEST(NaiveExecutor, ASurplusEndIsNoMismatch) {
  EXPECT_EQ(run(two(2, {"0F0", "0F1", "0SEND_F0@0", "0SEND_F1@0"}, {"1RECV_F0@0"}).build()),
            deadlock({"0-10 10-20 10-13 x", "0-13"}));
  EXPECT_EQ(run(two(1, {}, {"1RECV_F0@0"}).build()), deadlock({"", "x"}));
}

// E5: rendezvous and credits.

TEST(NaiveExecutor, RendezvousBeginsWhenBothEndsHaveStarted) {
  const Program late = two(2, {"0F0", "0SEND_F0@0"}, {"1RECV_F0@0 after 1", "1LOAD0"}).build();
  EXPECT_EQ(run(late).outcome, Outcome::deadlock);  // 1 is no first stage: its LOAD is misplaced
  const Program program =
      two(1, {"0F0", "0SEND_F0@0", "0RECV_B0@1"}, {"1RECV_F0@0", "1F0", "1B0", "1SEND_B0@1"}).build();
  EXPECT_EQ(run(program), finished({"0-10 10-13 0-47", "0-13 13-23 23-43 43-47"}));
}

/// The receiver computes another microbatch before it takes the second message.
Program busy_receiver() {
  return two(3, {"0F0", "0SEND_F0@0", "0F1", "0SEND_F1@0", "0F2", "0SEND_F2@0"},
             {"1RECV_F0@0", "1F0", "1RECV_F1@0 after 1", "1RECV_F2@0"})
      .build();
}

TEST(NaiveExecutor, RendezvousHoldsTheSenderUp) {
  EXPECT_EQ(run(busy_receiver()), finished({"0-10 10-13 10-20 20-26 20-30 30-33", "0-13 13-23 23-26 26-33"}));
}

TEST(NaiveExecutor, CreditsLetTheSenderGo) {
  // The second message is out at 23, when its RECV starts: receiving what has arrived takes no time.
  EXPECT_EQ(run(busy_receiver(), credits(1)),
            finished({"0-10 10-13 10-20 20-23 20-30 30-33", "0-13 13-23 23-23.1 23.1-33"}));
}

TEST(NaiveExecutor, ASendWithoutCreditWaitsForAReceipt) {
  const Program program = two(3, {"0F0", "0SEND_F0@0", "0F1", "0SEND_F1@0", "0F2", "0SEND_F2@0"},
                              {"1RECV_F0@0", "1F0", "1RECV_F1@0 after 3", "1F1", "1RECV_F2@0"})
                              .build();
  // 1RECV_F1 waits for 1F1, which waits for 1RECV_F1: the receiver is stuck, the sender is not.
  EXPECT_EQ(run(program), deadlock({"0-10 10-13 10-20 x 20-30 x", "0-13 13-23 x x x"}));
  EXPECT_EQ(run(program, credits(1)), deadlock({"0-10 10-13 10-20 20-23 20-30 x", "0-13 13-23 x x x"}));
  EXPECT_EQ(run(program, credits(2)), deadlock({"0-10 10-13 10-20 20-23 20-30 30-33", "0-13 13-23 x x x"}));
}

TEST(NaiveExecutor, ACreditIsFreeWhenItsMessageIsReceived) {
  const Program program =
      two(2, {"0F0", "0SEND_F0@0", "0F1", "0SEND_F1@0"}, {"1RECV_F0@0 after 2", "1RECV_F1@0", "1RESHARD"})
          .build();
  EXPECT_EQ(run(program, credits(1)).outcome, Outcome::deadlock);
  const Program slow = two(3, {"0F0", "0SEND_F0@0", "0F1", "0SEND_F1@0", "0F2", "0SEND_F2@0"},
                           {"1RECV_F0@0", "1F0", "1B0", "1RECV_F1@0 after 2", "1RECV_F2@0"})
                           .build();
  // 1RECV_F1 starts at 43. Message 1 is out at 23; message 2 has its credit in round 1 of 43.
  EXPECT_EQ(run(slow, credits(1)),
            finished({"0-10 10-13 10-20 20-23 20-30 30-46", "0-13 13-23 23-43 43-43.1 43.1-46"}));
  EXPECT_EQ(run(slow, credits(2)),
            finished({"0-10 10-13 10-20 20-23 20-30 30-33", "0-13 13-23 23-43 43-43.1 43.1-43.2"}));
}

TEST(NaiveExecutor, DeferredReceivesNeedDirectedQueues) {
  EXPECT_EQ(run(deferred_receives(false)).outcome, Outcome::deadlock);
  EXPECT_EQ(run(deferred_receives(true)).outcome, Outcome::finished);
  EXPECT_EQ(run(deferred_receives(false), credits(1)).outcome, Outcome::finished);
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
  EXPECT_EQ(run(program), finished({"0-10 10-13 10-20 20-26", "0-13 13-23 23-26 26-36", "0-26 26-36"}));
}

TEST(NaiveExecutor, WhatDependsOnAMemberWaitsForTheGroup) {
  CostTable table = costs();
  table.set({.kind = OpKind::send_forward, .subject = 1}, 30);
  const Program program = HandProgram{
      .pipeline = chain_spec(3, 3, 2),
      .communicators = communicators({{0, 1}, {1, 2}}),
      .rows = {
          {"0F0", "0SEND_F0@0", "0F1", "0SEND_F1@0"},
          {"1RECV_F0@0", "1F0", "{1RECV_F1@0 1SEND_F0@1}", "1F1"},
          {"2RECV_F0@1"}}}.build();
  EXPECT_EQ(run(program, rendezvous(), table),
            finished({"0-10 10-13 10-20 20-26", "0-13 13-23 23-53 53-63", "0-53"}));
}

TEST(NaiveExecutor, MembersOnOneChannelGoInOrder) {
  const Program program =
      two(2, {"0F0", "0F1", "{0SEND_F0@0 0SEND_F1@0}"}, {"1RECV_F0@0", "1RECV_F1@0"}).build();
  EXPECT_EQ(run(program), finished({"0-10 10-20 20-26", "0-23 23-26"}));
  const Program apart =
      two(2, {"0F0", "0F1", "{0SEND_F0@0 0SEND_F1@1}"}, {"1RECV_F0@0", "1RECV_F1@1"}).build();
  EXPECT_EQ(run(apart), finished({"0-10 10-20 20-23", "0-23 0-23"}));
}

TEST(NaiveExecutor, CreditsCountMessagesOfAGroupOneByOne) {
  const Program program =
      two(2, {"0F0", "0F1", "{0SEND_F0@0 0SEND_F1@0}"}, {"1RECV_F0@0", "1F0", "1RECV_F1@0 after 1"}).build();
  EXPECT_EQ(run(program, credits(2)), finished({"0-10 10-20 20-26", "0-23 23-33 33-33.1"}));
  EXPECT_EQ(run(program, credits(1)), finished({"0-10 10-20 20-26", "0-23 23-33 33-33.1"}));
  const Program stuck = two(2, {"0F0", "0F1", "{0SEND_F0@0 0SEND_F1@0}", "0RECV_B0@1"},
                            {"1RECV_F0@0 after 3", "1RECV_F1@0", "1F0", "1RESHARD"})
                            .build();
  EXPECT_EQ(run(stuck, credits(2)), deadlock({"0-10 10-20 20-26 x", "x x x x"}));
  EXPECT_EQ(run(stuck, credits(1)), deadlock({"0-10 10-20 x x", "x x x x"}));
}

TEST(NaiveExecutor, ExchangesNeedAGroup) {
  HandProgram hand = two(2, {"0F0", "0F1", "0SEND_F0@0", "0RECV_B0@0", "0SEND_F1@0"},
                         {"1RECV_F0@0", "1F0", "1B0", "1RECV_F1@0", "1SEND_B0@0"});
  EXPECT_EQ(run(hand.build()).outcome, Outcome::deadlock);
  hand.rows = {{"0F0", "0F1", "0SEND_F0@0", "{0RECV_B0@0 0SEND_F1@0}"},
               {"1RECV_F0@0", "1F0", "1B0", "{1RECV_F1@0 1SEND_B0@0}"}};
  // The two messages are on two channels, so they do not wait for each other.
  EXPECT_EQ(run(hand.build()), finished({"0-10 10-20 10-13 20-47", "0-13 13-23 23-43 43-47"}));
}

// E7: collectives.

HandProgram with_barriers(std::vector<std::string> first, std::vector<std::string> second) {
  HandProgram hand = two(1, std::move(first), std::move(second));
  const std::vector<RankId> both = {RankId(0), RankId(1)};
  hand.pipeline.collectives = {Collective{"a", both}, Collective{"b", both}};
  return hand;
}

TEST(NaiveExecutor, CollectivesBeginWhenAllMembersHaveStarted) {
  EXPECT_EQ(run(with_barriers({"0F0", "0COLL@0 after 0"}, {"0COLL@0"}).build()),
            finished({"0-10 10-12", "0-12"}));
}

TEST(NaiveExecutor, CollectivesMeetInIssueOrderOfTheirCommunicator) {
  EXPECT_EQ(run(with_barriers({"0COLL@0", "1COLL@0"}, {"1COLL@0", "0COLL@0"}).build()).outcome,
            Outcome::mismatch);
  EXPECT_EQ(run(with_barriers({"0COLL@0", "1COLL@1"}, {"1COLL@1", "0COLL@0"}).build()),
            finished({"0-2 0-2", "0-2 0-2"}));
  EXPECT_EQ(run(with_barriers({"0COLL@0", "1COLL@0"}, {"0COLL@0"}).build()), deadlock({"0-2 x", "0-2"}));
}

// E8: residency.

TEST(NaiveExecutor, AResidencyLimitMakesOperationsQueueUp) {
  const Program program =
      two(2, {"0F0", "0F1", "0SEND_F0@0", "0SEND_F1@1"}, {"1RECV_F1@1", "1RECV_F0@0"}).build();
  EXPECT_EQ(run(program), finished({"0-10 10-20 10-13 20-23", "0-23 0-13"}));
  EXPECT_EQ(run(program, {.residency = 2}), finished({"0-10 10-20 10-13 20-23", "0-23 0-13"}));
  // One place: the RECV of microbatch 1 takes it first and the SEND of microbatch 0 the other.
  EXPECT_EQ(run(program, {.residency = 1}), deadlock({"0-10 10-20 x x", "x x"}));
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
  EXPECT_EQ(run(program, {.residency = 1}).outcome, Outcome::finished);
  EXPECT_EQ(can_deadlock(program, {.residency = 1}, 1000), true);
  EXPECT_EQ(can_deadlock(program, {.residency = 2}, 1000), false);
}

TEST(CanDeadlock, WithoutALimitThereIsOneAnswer) {
  EXPECT_EQ(can_deadlock(deferred_receives(false), rendezvous(), 1), true);
  EXPECT_EQ(can_deadlock(deferred_receives(true), rendezvous(), 1), false);
  EXPECT_EQ(can_deadlock(two_rank_step(), {.credits = 1}, 1), false);
}

// Rounds.

TEST(NaiveExecutor, ZeroDurationWorkCompletesInTheNextRound) {
  EXPECT_EQ(run(two_rank_step(), rendezvous(), CostTable()),
            finished({"0-0.1 0.1-0.2 0-0.5 0.5-0.6", "0-0.2 0.2-0.3 0.3-0.4 0.4-0.5"}));
}

TEST(NaiveExecutor, BothEndsOfAMessageEndInTheSameRound) {
  const NaiveRun result = run_naively(two_rank_step(), rendezvous(), costs());
  EXPECT_EQ(result.trace.spans[InstructionId(1)].end, result.trace.spans[InstructionId(4)].end);
  EXPECT_EQ(result.trace.spans[InstructionId(2)].end, result.trace.spans[InstructionId(7)].end);
}

}  // namespace
}  // namespace ppsim::test
