#include "ppsim/core/lowering/lowering.hpp"

#include <gtest/gtest.h>

#include "ppsim/core/io/text.hpp"
#include "ppsim/core/io/torch_csv.hpp"
#include "support/lowered.hpp"
#include "support/lowering_cases.hpp"
#include "support/programs.hpp"
#include "support/row_text.hpp"

namespace ppsim {
namespace {

using test::after_text;
using test::forwards;
using test::lowered;
using test::refusal;
using test::row_text;
using test::schedule_of;
using test::two_ranks;

CostTable costs(double forward, double backward, double transfer) {
  return unit_cost_table({.F = forward, .B = backward, .c = transfer});
}

// Passes.

TEST(Lowering, AnObserverSeesEveryPassInOrder) {
  const CostTable table = costs(1, 2, 0.1);
  const LoweringOptions options{.order = IssueOrder::timed,
                                .grouping = Grouping::paired,
                                .receive_buffers = 1,
                                .recompute = Recompute::full,
                                .load = true,
                                .unshard = true,
                                .reduce_grad = true,
                                .optimizer = true};
  std::string passes;
  PassRows last;
  const auto program = lower(two_ranks(), options, &table, [&](std::string_view pass, const PassRows& rows) {
    passes += std::string(pass) + " ";
    last = rows;
  });
  ASSERT_TRUE(program) << program.error();
  EXPECT_EQ(passes,
            "schedule insert_recompute insert_loads insert_unshards insert_updates order_exchanges "
            "insert_transfers sort_by_time limit_receives pair_transfers build_program ");
  for (int r = 0; r < 2; ++r) {
    for (std::size_t i = 0; i < last[RankId(r)].size(); ++i) {
      const InstructionId id(program->first(RankId(r)).value() + static_cast<std::int32_t>(i));
      EXPECT_EQ(last[RankId(r)][i], instruction_text(*program, id));
    }
  }
  EXPECT_EQ(*program, *lower(two_ranks(), options, &table));
}

TEST(Lowering, AnObserverSeesWhatAPassChanged) {
  IdVector<RankId, std::vector<std::string>> before, after;
  const auto program = lower(two_ranks(), {.order = IssueOrder::early}, nullptr,
                             [&](std::string_view pass, const PassRows& rows) {
                               if (pass == "insert_transfers") before = rows;
                               if (pass == "place_arrivals") after = rows;
                             });
  ASSERT_TRUE(program) << program.error();
  using Row = std::vector<std::string>;
  EXPECT_EQ(before[RankId(1)],
            Row({"1RECV_F0", "1F0", "1RECV_F1", "1B0", "1SEND_B0", "1F1", "1B1", "1SEND_B1"}));
  EXPECT_EQ(after[RankId(1)],
            Row({"1RECV_F0", "1F0", "1B0", "1SEND_B0", "1RECV_F1 after 2", "1F1", "1B1", "1SEND_B1"}));
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

// PyTorch's defer_recv_ops makes this of the schedule, and its users hang in it.
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
  const Program program =
      lowered(schedule_of(Pipeline::make(spec).value(), {"0F0 3F0 3B0 0B0", "1F0 2F0 2B0 1B0"}));
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
  const Program program =
      lowered(schedule_of(Pipeline::make(spec).value(), {"0F0 0B0", "1F0 1B0", "2F0 2B0"}));
  EXPECT_EQ(row_text(program, 0), "0F0 0SEND_F0>1 0SEND_F0>2 0RECV_B0<2 0RECV_B0<1 0B0");
  EXPECT_EQ(row_text(program, 2), "2RECV_F0<0 2RECV_F0<1 2F0 2B0 2SEND_B0>0 2SEND_B0>1");
  EXPECT_EQ(test::first_violation(program), "");
}

TEST(Lowering, RoutesLeaveOutWhatTheyDoNotVisit) {
  PipelineSpec spec{.ranks = 3, .stages = 3, .microbatches = 2};
  spec.routes = {{StageId(0), StageId(1), StageId(2)}, {StageId(0), StageId(2)}};
  spec.route = {RouteId(0), RouteId(1)};
  const Program program = lowered(schedule_of(Pipeline::make(spec).value(), {"0F0 0F1", "1F0", "2F0 2F1"}));
  EXPECT_EQ(row_text(program, 1), "1RECV_F0 1F0 1SEND_F0");
  EXPECT_EQ(test::first_violation(program), "");
}

TEST(Lowering, SlicesTravelOneByOne) {
  PipelineSpec spec{.ranks = 2, .stages = 2, .microbatches = 1, .slices = 2};
  const Program program = lowered(
      schedule_of(Pipeline::make(spec).value(), {"0F0.0 0F0.1 0B0.1 0B0.0", "1F0.0 1F0.1 1B0.1 1B0.0"}));
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
TEST(Lowering, ActivationsLentByTheScheduleMeetAtBothEnds) {
  PipelineSpec spec{.ranks = 2, .stages = 2, .microbatches = 1};
  const Pipeline pipeline = Pipeline::make(spec).value();
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
  EXPECT_EQ(refusal(two_ranks(), {.order = IssueOrder::early, .early = -1}),
            "early:N needs N >= 0, found -1");
  EXPECT_EQ(refusal(two_ranks(), {.receive_buffers = 0}), "receive buffers must be at least 1, found 0");
  EXPECT_EQ(refusal(two_ranks(), {.clip = true}), "clip needs opt: it scales what an optimizer step reads");
  EXPECT_NE(refusal(two_ranks(), {.recompute = Recompute::full, .offload = {.percent = 100, .stages = {}}}),
            "");
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
  const auto unknown = policy_from_name("per_rank");
  ASSERT_FALSE(unknown.has_value());
  EXPECT_EQ(to_string(unknown.error()),
            "unknown communicators (did you mean \"per-rank\"?) (found per_rank, expected one of per-rank, "
            "per-pair, "
            "per-edge, per-stage-edge)");
}

TEST(LoweringOptions, NamesOfGroupingsAndDialects) {
  EXPECT_EQ(grouping_from_name("none"), Grouping::none);
  EXPECT_EQ(grouping_from_name("paired"), Grouping::paired);
  EXPECT_EQ(grouping_from_name("as-written"), Grouping::as_written);
  EXPECT_FALSE(grouping_from_name("").has_value());
  EXPECT_EQ(dialect_from_name("torch"), CsvDialect::torch);
  EXPECT_EQ(dialect_from_name("legacy"), CsvDialect::legacy);
  EXPECT_EQ(dialect_from_name("zero-bubble"), CsvDialect::zero_bubble);
  EXPECT_EQ(dialect_from_name("torch-2.15"), CsvDialect::torch_2_15);
  EXPECT_FALSE(dialect_from_name("torch-2.16").has_value());
}

}  // namespace
}  // namespace ppsim
