#include "ppsim/core/lowering.hpp"

#include <gtest/gtest.h>

#include "ppsim/core/text.hpp"
#include "support/lowered.hpp"
#include "support/programs.hpp"
#include "support/row_text.hpp"

namespace ppsim {
namespace {

using test::lowered;
using test::row_text;
using test::schedule_of;

/// 1F1B of two stages on two ranks.
Schedule two_ranks() { return schedule_of(test::chain(2, 2, 2), {"0F0 0F1 0B0 0B1", "1F0 1B0 1F1 1B1"}); }

/// Forward only.
Schedule forwards() { return schedule_of(test::chain(2, 2, 3), {"0F0 0F1 0F2", "1F0 1F1 1F2"}); }

Pipeline pipeline_of(PipelineSpec spec) {
  auto pipeline = Pipeline::make(std::move(spec));
  if (!pipeline) throw std::runtime_error(to_string(pipeline.error()));
  return *std::move(pipeline);
}

std::string refusal(const Schedule& schedule, const LoweringOptions& options) {
  const auto program = lower(schedule, options);
  return program ? "" : program.error().message;
}

/// The instructions of a rank that have an `after`, with it.
std::string after_text(const Program& program, int rank) {
  std::string text;
  const InstructionId first = program.first(RankId(rank));
  for (auto id = first; id < program.last(RankId(rank)); id = InstructionId(id.value() + 1)) {
    for (const InstructionId after : program.after(id)) {
      text +=
          (text.empty() ? "" : ", ") + actions_text(program, id) + " after " + actions_text(program, after);
    }
  }
  return text;
}

CostTable costs(double forward, double backward, double transfer) {
  return unit_cost_table({.F = forward, .B = backward, .c = transfer});
}

// Orders.

TEST(Lowering, GlobalPlacesReceivesWhereTheSenderIs) {
  const Program program = lowered(two_ranks());
  EXPECT_EQ(row_text(program, 0), "0F0 0SEND_F0 0F1 0SEND_F1 0RECV_B0 0B0 0RECV_B1 0B1");
  EXPECT_EQ(row_text(program, 1), "1RECV_F0 1F0 1RECV_F1 1B0 1SEND_B0 1F1 1B1 1SEND_B1");
  EXPECT_EQ(after_text(program, 0) + after_text(program, 1), "");
}

// With F=3 and B=1, 1B0 ends at 7 and 0F1 at 6: 1RECV_F1 at 6 stands before the 1B0 that starts at 6, by the
// walk.
TEST(Lowering, TimedSortsByEarliestTime) {
  const CostTable table = costs(3, 1, 0);
  const Program program = lowered(two_ranks(), {.order = IssueOrder::timed}, &table);
  EXPECT_EQ(row_text(program, 1), "1RECV_F0 1F0 1RECV_F1 1B0 1SEND_B0 1F1 1B1 1SEND_B1");
}

// With F=5 on rank 0 and short actions on rank 1, 1B0 is over before 0F1 ends, which the walk cannot know.
TEST(Lowering, TimedKnowsWhatTheWalkDoesNot) {
  CostTable table = costs(5, 1, 0);
  table.set({OpKind::forward, 1}, kUnitTime);
  const Program program = lowered(two_ranks(), {.order = IssueOrder::timed}, &table);
  EXPECT_EQ(row_text(program, 0), "0F0 0SEND_F0 0F1 0RECV_B0 0SEND_F1 0B0 0RECV_B1 0B1");
  EXPECT_EQ(row_text(program, 1), "1RECV_F0 1F0 1B0 1SEND_B0 1RECV_F1 1F1 1B1 1SEND_B1");
}

TEST(Lowering, JustInTimePlacesReceivesBeforeTheirUsers) {
  const Program program = lowered(two_ranks(), {.order = IssueOrder::early});
  EXPECT_EQ(row_text(program, 0), "0F0 0SEND_F0 0F1 0SEND_F1 0RECV_B0 0B0 0RECV_B1 0B1");
  EXPECT_EQ(row_text(program, 1), "1RECV_F0 1F0 1B0 1SEND_B0 1RECV_F1 1F1 1B1 1SEND_B1");
  EXPECT_EQ(after_text(program, 0), "0RECV_B0 after 0F1, 0RECV_B1 after 0B0");
  EXPECT_EQ(after_text(program, 1), "1RECV_F1 after 1B0");
}

// What PyTorch's defer_recv_ops makes of this schedule, and what its users hang in.
TEST(Lowering, JustInTimeOnOneQueuePerRankDeadlocks) {
  const LoweringOptions options{.order = IssueOrder::early, .communicators = CommunicatorPolicy::per_rank};
  EXPECT_FALSE(test::finishes(lowered(two_ranks(), options)));
  EXPECT_TRUE(test::finishes(lowered(two_ranks(), {.order = IssueOrder::early})));
}

TEST(Lowering, EarlyPlacesReceivesComputeActionsSooner) {
  const Program one = lowered(two_ranks(), {.order = IssueOrder::early, .early = 1});
  EXPECT_EQ(row_text(one, 1), "1RECV_F0 1F0 1RECV_F1 1B0 1SEND_B0 1F1 1B1 1SEND_B1");
  EXPECT_EQ(after_text(one, 1), "1RECV_F1 after 1F0");
  const Program many = lowered(two_ranks(), {.order = IssueOrder::early, .early = 9});
  EXPECT_EQ(row_text(many, 1), "1RECV_F0 1RECV_F1 1F0 1B0 1SEND_B0 1F1 1B1 1SEND_B1");
  EXPECT_EQ(after_text(many, 1), "");
}

// Rank 1 computes stage 1 and 3, rank 0 sends 0F0 before 2F0 but rank 1 uses 2F0's message, 3F0, before
// 0F1's.
TEST(Lowering, AReceiveThatWouldOvertakePullsTheEarlierOneForward) {
  const Schedule schedule = schedule_of(test::chain(2, 4, 2), {"0F0 0F1 2F0 2F1", "1F0 3F0 1F1 3F1"});
  const Program program = lowered(schedule, {.order = IssueOrder::early});
  EXPECT_EQ(row_text(program, 1), "1RECV_F0 1F0 1SEND_F0 1RECV_F1 3RECV_F0 3F0 1F1 1SEND_F1 3RECV_F1 3F1");
  EXPECT_EQ(test::first_violation(program), "");
}

TEST(Lowering, ChannelsOfStageEdgesDoNotPull) {
  const Schedule schedule = schedule_of(test::chain(2, 4, 2), {"0F0 0F1 2F0 2F1", "1F0 3F0 1F1 3F1"});
  const Program program =
      lowered(schedule, {.order = IssueOrder::early, .communicators = CommunicatorPolicy::per_stage_edge});
  EXPECT_EQ(row_text(program, 1), "1RECV_F0 1F0 1SEND_F0 3RECV_F0 3F0 1RECV_F1 1F1 1SEND_F1 3RECV_F1 3F1");
  EXPECT_EQ(test::first_violation(program), "");
}

TEST(Lowering, IssueOrderedWaitsForAllComputeBefore) {
  const Program program = lowered(two_ranks(), {.order = IssueOrder::issue_ordered});
  EXPECT_EQ(after_text(program, 1), "1RECV_F1 after 1F0, 1SEND_B0 after 1B0, 1SEND_B1 after 1B1");
}

TEST(Lowering, AsWrittenIsForWhatNeedsNoTransfers) {
  const Schedule alone = schedule_of(test::chain(1, 2, 1), {"0F0 1F0 1B0 0B0"});
  EXPECT_EQ(row_text(lowered(alone, {.order = IssueOrder::as_written}), 0), "0F0 1F0 1B0 0B0");
  EXPECT_NE(refusal(two_ranks(), {.order = IssueOrder::as_written}).find("a schedule has none"),
            std::string::npos);
  EXPECT_NE(refusal(two_ranks(), {.grouping = Grouping::as_written}).find("a schedule has none"),
            std::string::npos);
}

// Transfers.

TEST(Lowering, StagesOfOneRankHandOverDirectly) {
  PipelineSpec spec{.ranks = 2, .stages = 4, .microbatches = 1};
  spec.placement = {RankId(0), RankId(1), RankId(1), RankId(0)};
  const Program program = lowered(schedule_of(pipeline_of(spec), {"0F0 3F0 3B0 0B0", "1F0 2F0 2B0 1B0"}));
  EXPECT_EQ(row_text(program, 1), "1RECV_F0 1F0 2F0 2SEND_F0 2RECV_B0 2B0 1B0 1SEND_B0");
}

TEST(Lowering, SendsOfAnOverlapComeAfterThePair) {
  const Schedule schedule = schedule_of(test::chain(2, 4, 2), {"0F0 2F0 0F1 (2F1;2B0)OVERLAP_F_B 0B0 2B1 0B1",
                                                               "1F0 3F0 3B0 1F1 1B0 3F1 3B1 1B1"});
  EXPECT_EQ(row_text(lowered(schedule), 0),
            "0F0 0SEND_F0 2RECV_F0 2F0 2SEND_F0 0F1 0SEND_F1 2RECV_B0 2RECV_F1 (2F1;2B0)OVERLAP_F_B 2SEND_F1 "
            "2SEND_B0 0RECV_B0 0B0 2RECV_B1 2B1 2SEND_B1 0RECV_B1 0B1");
}

TEST(Lowering, EveryEdgeOfADagHasItsTransfer) {
  PipelineSpec spec{.ranks = 3, .stages = 3, .microbatches = 1};
  spec.edges = {{StageId(0), StageId(1)}, {StageId(0), StageId(2)}, {StageId(1), StageId(2)}};
  const Program program = lowered(schedule_of(pipeline_of(spec), {"0F0 0B0", "1F0 1B0", "2F0 2B0"}));
  EXPECT_EQ(row_text(program, 0), "0F0 0SEND_F0>1 0SEND_F0>2 0RECV_B0<2 0RECV_B0<1 0B0");
  EXPECT_EQ(row_text(program, 2), "2RECV_F0<0 2RECV_F0<1 2F0 2B0 2SEND_B0>0 2SEND_B0>1");
  EXPECT_EQ(test::first_violation(program), "");
}

TEST(Lowering, RoutesLeaveOutWhatTheyDoNotVisit) {
  PipelineSpec spec{.ranks = 3, .stages = 3, .microbatches = 2};
  spec.routes = {{StageId(0), StageId(1), StageId(2)}, {StageId(0), StageId(2)}};
  spec.route = {RouteId(0), RouteId(1)};
  const Program program = lowered(schedule_of(pipeline_of(spec), {"0F0 0F1", "1F0", "2F0 2F1"}));
  EXPECT_EQ(row_text(program, 1), "1RECV_F0 1F0 1SEND_F0");
  EXPECT_EQ(test::first_violation(program), "");
}

TEST(Lowering, SlicesTravelOneByOne) {
  PipelineSpec spec{.ranks = 2, .stages = 2, .microbatches = 1, .slices = 2};
  const Program program =
      lowered(schedule_of(pipeline_of(spec), {"0F0.0 0F0.1 0B0.1 0B0.0", "1F0.0 1F0.1 1B0.1 1B0.0"}));
  EXPECT_EQ(row_text(program, 0), "0F0.0 0SEND_F0.0 0F0.1 0SEND_F0.1 0RECV_B0.1 0B0.1 0RECV_B0.0 0B0.0");
}

TEST(Lowering, RowsThatWaitForEachOtherAreNamed) {
  const Schedule schedule = schedule_of(test::chain(2, 2, 2), {"0F0 0B0 0F1 0B1", "1F0 1F1 1B0 1B1"});
  const auto program = lower(schedule, {});
  ASSERT_FALSE(program.has_value());
  EXPECT_EQ(program.error().code, ErrorCode::deadlock);
  EXPECT_EQ(program.error().message,
            "the rows wait for each other\n"
            "rank 0: 0B0 waits for rank 1, which is at 1F1\n"
            "rank 1: 1F1 waits for rank 0, which is at 0B0");
}

// Communicators and groups.

TEST(Lowering, PoliciesNameTheirCommunicators) {
  const auto names = [](CommunicatorPolicy policy) {
    const Program program = lowered(two_ranks(), {.communicators = policy});
    std::string text;
    for (const Communicator& communicator : program.communicators()) {
      text += communicator.name + ' ';
    }
    return text;
  };
  EXPECT_EQ(names(CommunicatorPolicy::per_rank), "world ");
  EXPECT_EQ(names(CommunicatorPolicy::per_pair), "0-1 ");
  EXPECT_EQ(names(CommunicatorPolicy::per_edge), "0>1 1>0 ");
  EXPECT_EQ(names(CommunicatorPolicy::per_stage_edge), "s0>s1 s1>s0 ");
}

// F and B take the same time: 0F2 and 1B0 end together, and so do 0SEND_F and 0RECV_B stand together at both
// ends.
TEST(Lowering, PairsAdjacentTransfersOfTwoRanks) {
  const Schedule schedule =
      schedule_of(test::chain(2, 2, 3), {"0F0 0F1 0F2 0B0 0B1 0B2", "1F0 1B0 1F1 1B1 1F2 1B2"});
  const CostTable table = costs(1, 1, 0);
  const Program program =
      lowered(schedule, {.order = IssueOrder::timed, .grouping = Grouping::paired}, &table);
  EXPECT_EQ(row_text(program, 0),
            "0F0 0SEND_F0 0F1 0SEND_F1 0F2 {0RECV_B0 0SEND_F2} 0B0 0RECV_B1 0B1 0RECV_B2 0B2");
  EXPECT_EQ(row_text(program, 1),
            "1RECV_F0 1F0 1RECV_F1 1B0 {1SEND_B0 1RECV_F2} 1F1 1B1 1SEND_B1 1F2 1B2 1SEND_B2");
  EXPECT_TRUE(test::finishes(program));
}

TEST(Lowering, WithCommunicatorsKeepsOrderAndGroups) {
  const Program program = lowered(two_ranks());
  const auto other = with_communicators(program, CommunicatorPolicy::per_rank);
  ASSERT_TRUE(other.has_value());
  EXPECT_EQ(*other, lowered(two_ranks(), {.communicators = CommunicatorPolicy::per_rank}));
}

// Receive limits.

TEST(Lowering, ReceiveBuffersBoundWaitingMessages) {
  const Program program = lowered(forwards(), {.receive_buffers = 1});
  EXPECT_EQ(row_text(program, 1), "1RECV_F0 1F0 1RECV_F1 1F1 1RECV_F2 1F2");
  EXPECT_EQ(after_text(program, 1), "1RECV_F1 after 1F0, 1RECV_F2 after 1F1");
  const Program two = lowered(forwards(), {.receive_buffers = 2});
  EXPECT_EQ(after_text(two, 1), "1RECV_F2 after 1F0");
}

TEST(Lowering, TooFewReceiveBuffersAreAnError) {
  const Schedule schedule = schedule_of(test::chain(2, 4, 2), {"0F0 0F1 2F0 2F1", "1F0 3F0 1F1 3F1"});
  EXPECT_EQ(refusal(schedule, {.receive_buffers = 1}),
            "receive buffers: 1 are too few on rank 1: 3F0 needs 3RECV_F0<2 while an earlier arrival of its "
            "channel is "
            "still unused");
  EXPECT_EQ(refusal(schedule, {.receive_buffers = 2}), "");
}

// Local work.

TEST(Lowering, FullRecomputeRunsRBeforeEveryBackward) {
  const Program program = lowered(two_ranks(), {.recompute = Recompute::full});
  EXPECT_EQ(row_text(program, 1), "1RECV_F0 1F0 1RECV_F1 1R0 1B0 1SEND_B0 1F1 1R1 1B1 1SEND_B1");
  EXPECT_EQ(lowered(two_ranks(), {.recompute = Recompute::selective}), lowered(two_ranks()));
}

constexpr int kAll = 100;
Offload percent(int percent) { return {.percent = percent, .stages = {}}; }

/// One rank, all F before the B.
Schedule one_rank(int microbatches) {
  ScheduleBuilder builder("one rank", test::chain(1, 1, microbatches));
  for (int m = 0; m < microbatches; ++m) builder.add(OpKind::forward, StageId(0), MicrobatchId(m));
  for (int m = 0; m < microbatches; ++m) builder.add(OpKind::backward, StageId(0), MicrobatchId(m));
  return builder.build().value();
}

// A copy has one action beside it, and the activations are gone in between.
TEST(Lowering, OffloadsWhatWaitsForTwoActions) {
  const Program program = lowered(one_rank(3), {.offload = percent(kAll)});
  EXPECT_EQ(row_text(program, 0),
            "0F0 0OFFLOAD0 0F1 0OFFLOAD1 0RELOAD0 0F2 0OFFLOAD2 0RELOAD1 0B0 0RELOAD2 0B1 0B2");
  EXPECT_EQ(after_text(program, 0),
            "0RELOAD0 after 0F1, 0F2 after 0OFFLOAD0, 0RELOAD1 after 0F2, 0B0 after 0OFFLOAD1, "
            "0RELOAD2 after 0B0, 0B1 after 0OFFLOAD2");
  EXPECT_EQ(row_text(lowered(forwards(), {.offload = percent(kAll)}), 0), row_text(lowered(forwards()), 0));
  EXPECT_EQ(row_text(lowered(two_ranks(), {.offload = percent(kAll)}), 0), row_text(lowered(two_ranks()), 0));
}

// 0F3 ends at 8 and 0B3 starts at 14: RELOAD, which takes 3, is in time behind 0B0, which ends at 10.
TEST(Lowering, TimedReloadsAsLateAsTheBackwardAllows) {
  CostTable table = costs(2, 2, 0);
  table.set({OpKind::offload}, 2 * kUnitTime);
  table.set({OpKind::reload}, 3 * kUnitTime);
  const LoweringOptions options{.order = IssueOrder::timed, .offload = percent(25)};
  const Program program = lowered(one_rank(4), options, &table);
  EXPECT_EQ(row_text(program, 0), "0F0 0F1 0F2 0F3 0OFFLOAD3 0B0 0RELOAD3 0B1 0B2 0B3");
  EXPECT_EQ(after_text(program, 0), "0RELOAD3 after 0B0");
}

// Copies of 4 beside actions of 2: between 0F3 and 0B3 there is no time for two.
TEST(Lowering, TimedOffloadsNothingThatWouldBeLate) {
  CostTable table = costs(2, 2, 0);
  table.set({OpKind::offload}, 4 * kUnitTime);
  table.set({OpKind::reload}, 4 * kUnitTime);
  const LoweringOptions options{.order = IssueOrder::timed, .offload = percent(kAll)};
  EXPECT_EQ(row_text(lowered(one_rank(4), options, &table), 0), "0F0 0F1 0F2 0F3 0B0 0B1 0B2 0B3");
}

TEST(Lowering, OffloadsHalfEvenlyOverMicrobatches) {
  EXPECT_EQ(row_text(lowered(one_rank(6), {.offload = percent(50)}), 0),
            "0F0 0F1 0OFFLOAD1 0F2 0F3 0OFFLOAD3 0F4 0F5 0OFFLOAD5 0RELOAD1 0B0 0B1 0RELOAD3 0B2 0B3 "
            "0RELOAD5 0B4 0B5");
}

// Stage 0 of two stages on a rank waits longer: half of all is all of it.
TEST(Lowering, OffloadsTheStagesThatWaitLongestFirst) {
  const Schedule schedule = schedule_of(test::chain(1, 2, 2), {"0F0 0F1 1F0 1F1 1B0 1B1 0B0 0B1"});
  const std::string half = row_text(lowered(schedule, {.offload = percent(50)}), 0);
  EXPECT_NE(half.find("0OFFLOAD0"), std::string::npos) << half;
  EXPECT_NE(half.find("0OFFLOAD1"), std::string::npos) << half;
  EXPECT_EQ(half.find("1OFFLOAD"), std::string::npos) << half;
  const LoweringOptions first{.offload = {.percent = kAll, .stages = {StageId(0)}}};
  EXPECT_EQ(row_text(lowered(schedule, first), 0), half);
}

TEST(Lowering, WhatItOffloadsAndRecomputesMustExist) {
  EXPECT_NE(refusal(two_ranks(), {.offload = {.percent = kAll, .stages = {StageId(2)}}}), "");
  EXPECT_NE(refusal(two_ranks(), {.recompute = StageRecompute({{StageId(2), Recompute::full}})}), "");
}

TEST(Lowering, RecomputesTheStagesThatItIsTold) {
  const Program program =
      lowered(two_ranks(), {.recompute = StageRecompute({{StageId(1), Recompute::full}})});
  EXPECT_EQ(row_text(program, 1), "1RECV_F0 1F0 1RECV_F1 1R0 1B0 1SEND_B0 1F1 1R1 1B1 1SEND_B1");
  EXPECT_EQ(row_text(program, 0), row_text(lowered(two_ranks()), 0));
}

TEST(Lowering, OffloadsNothingThatIsRecomputed) {
  ScheduleBuilder builder("recomputed", test::chain(1, 1, 2));
  for (const int m : {0, 1}) builder.add(OpKind::forward, StageId(0), MicrobatchId(m));
  builder.add(OpKind::recompute, StageId(0), MicrobatchId(0));
  for (const int m : {0, 1}) builder.add(OpKind::backward, StageId(0), MicrobatchId(m));
  EXPECT_EQ(row_text(lowered(builder.build().value(), {.offload = percent(kAll)}), 0),
            "0F0 0F1 0OFFLOAD1 0R0 0RELOAD1 0B0 0B1");
}

TEST(Lowering, RefusesToAddWhatTheScheduleHas) {
  ScheduleBuilder builder("with OPT", test::chain(1, 1, 1));
  builder.add(OpKind::forward, StageId(0), MicrobatchId(0))
      .add(OpKind::backward, StageId(0), MicrobatchId(0));
  builder.add(RankId(0), Step(Action{0, 0, -1, 0, OpKind::optimizer}));
  const Schedule schedule = builder.build().value();
  EXPECT_EQ(refusal(schedule, {}), "");
  EXPECT_EQ(refusal(schedule, {.optimizer = true}),
            "the schedule has OPT already, and opt would add it again");
}

TEST(Lowering, WhatArrivesForNobodyStaysWhereItIs) {
  ScheduleBuilder builder("a last UNSHARD", test::chain(1, 1, 1));
  const auto shard = [](OpKind kind) { return Step(Action{0, -1, -1, 0, kind}); };
  builder.add(RankId(0), shard(OpKind::unshard)).add(OpKind::forward, StageId(0), MicrobatchId(0));
  builder.add(RankId(0), shard(OpKind::reshard)).add(RankId(0), shard(OpKind::unshard));
  const Program program = lowered(builder.build().value(), {.order = IssueOrder::early});
  EXPECT_EQ(row_text(program, 0), "0UNSHARD 0F0 0RESHARD 0UNSHARD");
}

TEST(Lowering, JustInTimeReloadsStayBehindTheirOffloads) {
  const Program program =
      lowered(two_ranks(), {.order = IssueOrder::early, .early = 9, .offload = percent(kAll)});
  EXPECT_EQ(row_text(program, 0),
            "0RECV_B0 0RECV_B1 0F0 0SEND_F0 0OFFLOAD0 0RELOAD0 0F1 0SEND_F1 0OFFLOAD1 0RELOAD1 0B0 0B1");
  EXPECT_EQ(test::first_violation(program), "");
}

TEST(Lowering, LoadsOnFirstStagesOnly) {
  const Program program = lowered(forwards(), {.load = true});
  EXPECT_EQ(row_text(program, 0), "0LOAD0 0F0 0SEND_F0 0LOAD1 0F1 0SEND_F1 0LOAD2 0F2 0SEND_F2");
  EXPECT_EQ(row_text(program, 1), row_text(lowered(forwards()), 1));
}

// Four stages on a rank, three gathered at once, as PyTorch's pass does it.
TEST(Lowering, UnshardsTheNextThreeStages) {
  const Schedule schedule = schedule_of(test::chain(1, 4, 1), {"0F0 1F0 2F0 3F0 3B0 2B0 1B0 0B0"});
  EXPECT_EQ(row_text(lowered(schedule, {.unshard = true}), 0),
            "0UNSHARD 1UNSHARD 2UNSHARD 0F0 0RESHARD 3UNSHARD 1F0 2F0 3F0 3B0 3RESHARD "
            "0UNSHARD 2B0 "
            "2RESHARD 1B0 1RESHARD 0B0 0RESHARD");
}

TEST(Lowering, JustInTimeUnshardsStayBehindTheReshard) {
  const Schedule schedule = schedule_of(test::chain(1, 4, 1), {"0F0 1F0 2F0 3F0 3B0 2B0 1B0 0B0"});
  const Program program = lowered(schedule, {.order = IssueOrder::early, .early = 99, .unshard = true});
  EXPECT_EQ(row_text(program, 0),
            "0UNSHARD 1UNSHARD 2UNSHARD 3UNSHARD 0F0 0RESHARD 0UNSHARD 1F0 2F0 3F0 3B0 "
            "3RESHARD 2B0 "
            "2RESHARD 1B0 1RESHARD 0B0 0RESHARD");
}

TEST(Lowering, ReducesAndUpdatesAfterTheLastGradient) {
  const Program program = lowered(two_ranks(), {.reduce_grad = true, .optimizer = true});
  EXPECT_EQ(row_text(program, 1), "1RECV_F0 1F0 1RECV_F1 1B0 1SEND_B0 1F1 1B1 1SEND_B1 1REDUCE_GRAD 1OPT0");
  EXPECT_EQ(row_text(lowered(two_ranks(), {.optimizer = true}), 0),
            "0F0 0SEND_F0 0F1 0SEND_F1 0RECV_B0 0B0 0RECV_B1 0B1 0OPT0");
}

TEST(Lowering, ClippingMeetsOnceOnAllRanksBeforeTheFirstUpdate) {
  const Program program = lowered(two_ranks(), {.reduce_grad = true, .optimizer = true, .clip = true});
  EXPECT_EQ(row_text(program, 1),
            "1RECV_F0 1F0 1RECV_F1 1B0 1SEND_B0 1F1 1B1 1SEND_B1 1REDUCE_GRAD 0COLL 1OPT0");
  EXPECT_EQ(program.pipeline().spec().collectives[CollectiveId(0)],
            (Collective{"norm", {RankId(0), RankId(1)}}));
  EXPECT_TRUE(test::finishes(program));
}

/// Embeddings tied between the first and the last of four stages on two ranks, which end their gradients at
/// different times: a rank computes on while the other is not there yet.
TEST(Lowering, UpdatesAddNothingToInference) {
  const Program program = lowered(forwards(), {.reduce_grad = true, .optimizer = true, .clip = true});
  EXPECT_EQ(row_text(program, 0), row_text(lowered(forwards()), 0));
}

TEST(Lowering, AReductionOverRanksWaitsForAllAndLetsComputePass) {
  PipelineSpec spec{.ranks = 2, .stages = 4, .microbatches = 1};
  spec.blocks = {{{StageId(0), StageId(3)}}, {{StageId(1)}}, {{StageId(2)}}};
  const Schedule schedule = schedule_of(pipeline_of(spec), {"0F0 2F0 2B0 0B0", "1F0 3F0 3B0 1B0"});
  const Program program = lowered(schedule, {.reduce_grad = true});
  EXPECT_EQ(
      row_text(program, 1),
      "1RECV_F0 1F0 1SEND_F0 3RECV_F0 3F0 3B0 3SEND_B0 1RECV_B0 1B0 1SEND_B0 1REDUCE_GRAD 0REDUCE_GRAD");
  EXPECT_EQ(test::first_violation(program), "");
  EXPECT_TRUE(test::finishes(program));
}

TEST(Lowering, ActivationsLentByTheScheduleMeetAtBothEnds) {
  PipelineSpec spec{.ranks = 2, .stages = 2, .microbatches = 1};
  const Pipeline pipeline = pipeline_of(spec);
  ScheduleBuilder builder("lent", pipeline);
  builder.add(RankId(0), make_action(OpKind::forward, 0, 0))
      .add(RankId(0), make_transfer(OpKind::send_activation, 0, 0, 1))
      .add(RankId(0), make_transfer(OpKind::recv_activation, 0, 0, 1))
      .add(RankId(0), make_action(OpKind::backward, 0, 0))
      .add(RankId(1), make_action(OpKind::forward, 1, 0))
      .add(RankId(1), make_transfer(OpKind::recv_activation, 0, 0, 0))
      .add(RankId(1), make_action(OpKind::backward, 1, 0))
      .add(RankId(1), make_transfer(OpKind::send_activation, 0, 0, 0));
  const auto schedule = builder.build();
  ASSERT_TRUE(schedule.has_value()) << schedule.error();
  const Program program = lowered(*schedule);
  EXPECT_EQ(test::first_violation(program), "");
  EXPECT_TRUE(test::finishes(program));
}

// Options.

TEST(Lowering, OptionsThatDoNotGoTogetherAreRefused) {
  EXPECT_EQ(refusal(two_ranks(), {.order = IssueOrder::timed}),
            "the order timed needs costs; global needs none");
  EXPECT_EQ(refusal(two_ranks(), {.order = IssueOrder::early, .early = -1}),
            "early:N needs N >= 0, found -1");
  EXPECT_EQ(refusal(two_ranks(), {.receive_buffers = 0}), "receive buffers must be at least 1, found 0");
  EXPECT_EQ(refusal(two_ranks(), {.clip = true}), "clip needs opt: it scales what an optimizer step reads");
  EXPECT_NE(refusal(two_ranks(), {.recompute = Recompute::full, .offload = percent(kAll)}), "");
}

TEST(LoweringOptions, NamesOfOrders) {
  for (const char* name : {"timed", "global", "just-in-time", "early:3", "issue-ordered", "as-written"}) {
    LoweringOptions options;
    ASSERT_TRUE(set_order(options, name).has_value()) << name;
    EXPECT_EQ(order_name(options), name);
  }
  LoweringOptions options;
  for (const char* name : {"", "early", "early:", "early:x", "early:-1", "Timed"}) {
    EXPECT_FALSE(set_order(options, name).has_value()) << name;
  }
}

TEST(LoweringOptions, NamesOfPolicies) {
  for (const char* name : {"per-rank", "per-pair", "per-edge", "per-stage-edge"}) {
    const auto policy = policy_from_name(name);
    ASSERT_TRUE(policy.has_value()) << name;
    EXPECT_EQ(policy_name(*policy), name);
  }
  EXPECT_FALSE(policy_from_name("per_rank").has_value());
}

// A forward behind a backward is over just as early then; its copy must not keep the backward's from coming
// back.
TEST(Lowering, CopiesKeepTheOrderOfTheRowWhereComputationTakesNoTime) {
  const CostTable none;
  const Program program = lowered(schedule_of(test::chain(1, 1, 3), {"0F2 0F1 0B2 0F0 0B1 0B0"}),
                                  {.order = IssueOrder::timed, .offload = percent(kAll)}, &none);
  EXPECT_TRUE(test::finishes(program));
}

}  // namespace
}  // namespace ppsim
