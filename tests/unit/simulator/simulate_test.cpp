#include "ppsim/simulator/engine/simulate.hpp"

#include <gtest/gtest.h>

#include <optional>

#include "support/hand_program.hpp"
#include "support/programs.hpp"
#include "support/timing.hpp"

namespace ppsim {
namespace {

using test::communicators;
using test::cost_table;
using test::HandProgram;
using test::spans;
using Texts = std::vector<std::string>;
using enum OpKind;

TimedTrace run(const Program& program, const CostTable& costs,
               TransportCapabilities capabilities = rendezvous()) {
  return simulate_program(program, capabilities, costs).value().value();
}

Stuck run_stuck(const Program& program, TransportCapabilities capabilities = rendezvous()) {
  return simulate_program(program, capabilities, CostTable()).value().error();
}

TransportCapabilities credits(int n) { return {.credits = n}; }
TransportCapabilities residency(int k) { return {.residency = k}; }

/// Two forwards on two ranks; the receives are posted just in time.
Program just_in_time() {
  return HandProgram{{.ranks = 2, .stages = 2, .microbatches = 3},
                     communicators({{0, 1}}),
                     {{"0F0", "0SEND_F0@0", "0F1", "0SEND_F1@0", "0F2", "0SEND_F2@0"},
                      {"1RECV_F0@0", "1F0", "1RECV_F1@0 after 1", "1F1", "1RECV_F2@0 after 3", "1F2"}}}
      .build();
}

const CostTable kSlowConsumer = cost_table({{forward, 0, 1}, {forward, 1, 10}, {send_forward, -1, 2}});

TEST(Simulate, ForwardAndBackwardOverTwoRanks) {
  const Program program = test::two_rank_step();
  const CostTable costs =
      cost_table({{forward, -1, 10}, {backward, -1, 20}, {send_forward, -1, 3}, {send_backward, -1, 4}});
  const TimedTrace trace = run(program, costs);
  EXPECT_EQ(spans(program, trace, 0), (Texts{"0-10", "10-13", "0-47", "47-67"}));
  EXPECT_EQ(spans(program, trace, 1), (Texts{"0-13", "13-23", "23-43", "43-47"}));
}

TEST(Simulate, RendezvousWaitsForTheReceive) {
  const Program program = just_in_time();
  const TimedTrace trace = run(program, kSlowConsumer);
  EXPECT_EQ(spans(program, trace, 0), (Texts{"0-1", "1-3", "1-2", "3-15", "2-3", "15-27"}));
  EXPECT_EQ(spans(program, trace, 1), (Texts{"0-3", "3-13", "13-15", "15-25", "25-27", "27-37"}));
}

TEST(Simulate, CreditsLetTheSendRunAhead) {
  const Program program = just_in_time();
  const TimedTrace trace = run(program, kSlowConsumer, credits(1));
  // The third message leaves when the second is received; a message that has arrived is received one round
  // later.
  EXPECT_EQ(spans(program, trace, 0), (Texts{"0-1", "1-3", "1-2", "3-5", "2-3", "5-15"}));
  EXPECT_EQ(spans(program, trace, 1), (Texts{"0-3", "3-13", "13-13.1", "13.1-23", "23-23.1", "23.1-33"}));
}

TEST(Simulate, TheSecondMessageWaitsForTheReceiptOfTheFirst) {
  // Rank 1 computes for another route before it receives.
  const Program program = HandProgram{
      {.ranks = 2,
       .stages = 3,
       .microbatches = 3,
       .placement = {RankId(0), RankId(1), RankId(1)},
       .routes = {{StageId(0), StageId(1)}, {StageId(2)}},
       .route = {RouteId(0), RouteId(0), RouteId(1)}},
      communicators({{0, 1}}),
      {{"0F0", "0SEND_F0@0", "0F1", "0SEND_F1@0"},
       {"2F2", "1RECV_F0@0 after 0", "1RECV_F1@0", "1F0",
        "1F1"}}}.build();
  const CostTable costs = cost_table({{forward, 0, 1}, {forward, 2, 20}, {send_forward, -1, 2}});
  for (const auto& places : {std::optional<int>(), std::optional(2)}) {
    const TimedTrace trace = run(program, costs, {.credits = 1, .residency = places});
    EXPECT_EQ(spans(program, trace, 0), (Texts{"0-1", "1-3", "1-2", "3-22"}));
  }
}

TEST(Simulate, GroupMembersOfOneChannelGoInOrderAndCompleteTogether) {
  const Program program =
      HandProgram{{.ranks = 2, .stages = 2, .microbatches = 2},
                  communicators({{0, 1}}),
                  {{"0F0", "0F1", "{0SEND_F0@0 0SEND_F1@0}"}, {"{1RECV_F0@0 1RECV_F1@0}", "1F0", "1F1"}}}
          .build();
  const TimedTrace trace = run(program, kSlowConsumer);
  EXPECT_EQ(spans(program, trace, 0), (Texts{"0-1", "1-2", "2-6"}));
  EXPECT_EQ(spans(program, trace, 1), (Texts{"0-6", "6-16", "16-26"}));
}

TEST(Simulate, GroupMembersToDifferentPeersProgressIndependently) {
  const Program program = HandProgram{
      {.ranks = 3,
       .stages = 3,
       .microbatches = 1,
       .edges = {{StageId(0), StageId(1)}, {StageId(0), StageId(2)}}},
      communicators({{0, 1}, {0, 2}}),
      {{"0F0", "{0SEND_F0>1@0 0SEND_F0>2@1}"},
       {"1RECV_F0@0", "1F0"},
       {"2RECV_F0@1", "2F0"}}}.build();
  CostTable costs = kSlowConsumer;
  costs.set({.kind = send_forward, .subject = 0, .peer = 2}, 7);
  const TimedTrace trace = run(program, costs);
  EXPECT_EQ(spans(program, trace, 0), (Texts{"0-1", "1-8"}));
  EXPECT_EQ(spans(program, trace, 1), (Texts{"0-3", "3-13"}));
  EXPECT_EQ(spans(program, trace, 2), (Texts{"0-8", "8-8.1"}));
}

TEST(Simulate, CollectiveBeginsWhenAllHaveStarted) {
  const Program program =
      HandProgram{{.ranks = 2,
                   .stages = 2,
                   .microbatches = 1,
                   .edges = {{StageId(0), StageId(1)}},
                   .collectives = {{"barrier", {RankId(0), RankId(1)}}}},
                  communicators({{0, 1}, {0, 1}}),
                  {{"0F0", "0SEND_F0@0", "0COLL@1"}, {"1RECV_F0@0", "1F0", "1B0", "0COLL@1 after 2"}}}
          .build();
  CostTable costs = kSlowConsumer;
  costs.set({.kind = backward}, 20);
  costs.set({.kind = collective}, 5);
  const TimedTrace trace = run(program, costs);
  EXPECT_EQ(spans(program, trace, 0).back(), "0-38");
  EXPECT_EQ(spans(program, trace, 1).back(), "33-38");
}

TEST(Simulate, BlockingHoldsTheHostBack) {
  const Program program =
      HandProgram{{.ranks = 2, .stages = 2, .microbatches = 2},
                  communicators({{0, 1}}),
                  {{"0F0", "0SEND_F0@0 !", "0F1", "0SEND_F1@0"}, {"1RECV_F0@0", "1F0", "1RECV_F1@0", "1F1"}}}
          .build();
  const TimedTrace trace = run(program, kSlowConsumer);
  EXPECT_EQ(spans(program, trace, 0), (Texts{"0-1", "1-3", "3-4", "4-6"}));
}

TEST(Simulate, WorkWithoutDurationTakesARound) {
  const Program program = test::two_rank_step();
  const TimedTrace trace = run(program, CostTable());
  EXPECT_EQ(spans(program, trace, 0), (Texts{"0-0.1", "0.1-0.2", "0-0.5", "0.5-0.6"}));
  EXPECT_EQ(spans(program, trace, 1), (Texts{"0-0.2", "0.2-0.3", "0.3-0.4", "0.4-0.5"}));
}

TEST(Simulate, OverlappedPairHasItsOwnDuration) {
  const Program program =
      HandProgram{{.ranks = 1, .stages = 1, .microbatches = 2}, {}, {{"0F0", "(0F1;0B0)OVERLAP_F_B", "0B1"}}}
          .build();
  const CostTable costs = cost_table({{forward, -1, 1}, {backward, -1, 2}, {overlap, -1, 7}});
  EXPECT_EQ(spans(program, run(program, costs), 0), (Texts{"0-1", "1-8", "8-10"}));
}

TEST(Simulate, DeadlockNamesItsCycle) {
  const Program program = test::deferred_receives(false);
  const Stuck stuck = run_stuck(program);
  EXPECT_TRUE(stuck.mismatches.empty());
  const Error error = to_error(program, stuck);
  EXPECT_EQ(error.code, ErrorCode::deadlock);
  EXPECT_NE(error.message.find("waits for rank 1: "), std::string::npos) << error.message;
  const std::vector<Wait>& cycle = stuck.culprits;
  ASSERT_FALSE(cycle.empty());
  for (std::size_t i = 0; i < cycle.size(); ++i) {
    EXPECT_EQ(cycle[i].waits_for, cycle[(i + 1) % cycle.size()].who);
  }
}

TEST(Simulate, DirectedQueuesResolveTheDeadlock) {
  const Program program = test::deferred_receives(true);
  EXPECT_TRUE(simulate_program(program, rendezvous(), CostTable()).value().has_value());
}

TEST(Simulate, SendWithoutReceiveIsNamed) {
  const Program program = HandProgram{
      {.ranks = 2, .stages = 2, .microbatches = 1},
      communicators({{0, 1}}),
      {{"0F0", "0SEND_F0@0"},
       {}}}.build();
  const std::vector<Wait> alone = run_stuck(program).culprits;
  ASSERT_EQ(alone.size(), 1U);
  EXPECT_EQ(alone[0].who.instruction, InstructionId(1));
  EXPECT_FALSE(alone[0].waits_for.instruction.valid());
  EXPECT_EQ(alone[0].reason, WaitReason::counterpart);
  EXPECT_TRUE(simulate_program(program, credits(1), CostTable()).value().has_value());
}

TEST(Simulate, MissingDependencyIsNamed) {
  const Program program =
      HandProgram{{.ranks = 2, .stages = 2, .microbatches = 1}, {}, {{"0F0"}, {"1F0"}}}.build();
  const std::vector<Wait> alone = run_stuck(program).culprits;
  ASSERT_EQ(alone.size(), 1U);
  EXPECT_EQ(alone[0].reason, WaitReason::unsatisfiable);
}

TEST(Simulate, MissingMemberIsNamed) {
  const Program program = HandProgram{
      {.ranks = 2, .stages = 2, .microbatches = 1, .collectives = {{"barrier", {RankId(0), RankId(1)}}}},
      communicators({{0, 1}}),
      {{"0COLL@0"}, {}}}.build();
  const std::vector<Wait> alone = run_stuck(program).culprits;
  ASSERT_EQ(alone.size(), 1U);
  EXPECT_EQ(alone[0].reason, WaitReason::member);
}

TEST(Simulate, ExhaustedCreditIsNamed) {
  const Program program = HandProgram{
      {.ranks = 2, .stages = 2, .microbatches = 2},
      communicators({{0, 1}, {0, 1}}),
      {{"0F0", "0SEND_F0@0", "0F1", "0SEND_F1@0", "0RECV_B0@1 after 3", "0B0"},
       {"1RECV_F0@0 after 5", "1RECV_F1@0", "1F0 after 3", "1B0 after 3", "1SEND_B0@1",
        "1F1 after 4"}}}.build();
  const Stuck stuck = run_stuck(program, credits(1));
  const auto is_credit = [](const InstructionWait& stall) { return stall.reason == WaitReason::credit; };
  EXPECT_TRUE(std::any_of(stuck.stalls.begin(), stuck.stalls.end(), is_credit));
}

TEST(Simulate, MismatchIsReportedBeforeDeadlock) {
  const Program program = HandProgram{
      {.ranks = 2, .stages = 2, .microbatches = 2},
      communicators({{0, 1}}),
      {{"0F0", "0SEND_F0@0"},
       {"1RECV_F1@0", "1F1"}}}.build();
  const Stuck stuck = run_stuck(program);
  ASSERT_EQ(stuck.mismatches.size(), 1U);
  EXPECT_TRUE(stuck.stalls.empty());
  const Error error = to_error(program, stuck);
  EXPECT_EQ(error.code, ErrorCode::ill_formed);
  EXPECT_NE(error.message.find("rank 0: 0SEND_F0 meets rank 1: 1RECV_F1"), std::string::npos)
      << error.message;
}

TEST(Simulate, ResidencyMakesOperationsTakeTurns) {
  const Program program = just_in_time();
  EXPECT_EQ(run(program, kSlowConsumer, residency(2)), run(program, kSlowConsumer));
}

TEST(Simulate, ResidencyCanDeadlock) {
  // Each rank's only place goes to a receive that is posted ahead of the send that the other rank waits for.
  const Program program = test::deferred_receives(true);
  const Stuck stuck = run_stuck(program, residency(1));
  const auto waits_for_place = [](const InstructionWait& stall) { return stall.reason == WaitReason::place; };
  EXPECT_TRUE(std::any_of(stuck.stalls.begin(), stuck.stalls.end(), waits_for_place));
  EXPECT_FALSE(stuck.culprits.empty());
}

TEST(Simulate, FastClockAgreesWithTheTrace) {
  const Program program = just_in_time();
  const CompiledProgram compiled = compile({program, rendezvous()}).value();
  const BoundCosts costs = bind_costs(compiled, kSlowConsumer).value();
  SimulationScratch scratch;
  const StepTimes times = simulate(compiled, costs, scratch);
  EXPECT_EQ(times.makespan, 37);
  EXPECT_EQ(times.ranks[RankId(0)], (RankTimes{0, 3, 3}));
  EXPECT_EQ(times.ranks[RankId(1)], (RankTimes{3, 37, 30}));
  EXPECT_EQ(rank_span(times), 34);
  EXPECT_EQ(ideal_time(times), 30);
  EXPECT_DOUBLE_EQ(bubble_fraction(times), 1 - 16.5 / 37);
  EXPECT_DOUBLE_EQ(bubble_fraction_span(times), 1 - 30.0 / 34);
}

TEST(Simulate, RendezvousIsOneItemForBothEnds) {
  const Program program = test::two_rank_step();
  const CompiledProgram compiled = compile({program, rendezvous()}).value();
  EXPECT_EQ(compiled.items.size(), 1U + 4U + 2U);  // start, compute, messages
}

TEST(Simulate, DurationsThatOverflowAreRefused) {
  const Program program = test::two_rank_step();
  const CostTable costs = cost_table({{forward, -1, INT64_MAX / 2}, {backward, -1, INT64_MAX / 2}});
  for (const TransportCapabilities& capabilities : {rendezvous(), residency(4)}) {
    const auto result = simulate_program(program, capabilities, costs);
    ASSERT_FALSE(result.has_value());
    EXPECT_EQ(result.error().code, ErrorCode::bad_argument);
  }
}

}  // namespace
}  // namespace ppsim
