// Actions that lowering adds to the computation of a rank: recomputation, copies, loads, gathering, updates.

#include <gtest/gtest.h>

#include "ppsim/core/lowering/lowering.hpp"
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

TEST(Lowering, FullRecomputeRunsRBeforeEveryBackward) {
  const Program program = lowered(two_ranks(), {.recompute = Recompute::full});
  EXPECT_EQ(row_text(program, 1), "1RECV_F0 1F0 1RECV_F1 1R0 1B0 1SEND_B0 1F1 1R1 1B1 1SEND_B1");
  EXPECT_EQ(lowered(two_ranks(), {.recompute = Recompute::selective}), lowered(two_ranks()));
}

constexpr int kAll = 100;
Offload percent(int percent) { return {.percent = percent, .stages = {}}; }

/// One rank, all F before the B.
Schedule one_rank_schedule(int microbatches) {
  ScheduleBuilder builder("one rank", test::chain(1, 1, microbatches));
  for (int m = 0; m < microbatches; ++m) builder.add(OpKind::forward, StageId(0), MicrobatchId(m));
  for (int m = 0; m < microbatches; ++m) builder.add(OpKind::backward, StageId(0), MicrobatchId(m));
  return builder.build().value();
}

// A copy has one action beside it, and the activations are gone in between.
TEST(Lowering, OffloadsWhatWaitsForTwoActions) {
  const Program program =
      lowered(one_rank_schedule(3), {.order = IssueOrder::global, .offload = percent(kAll)});
  EXPECT_EQ(row_text(program, 0),
            "0F0 0OFFLOAD0 0F1 0OFFLOAD1 0RELOAD0 0F2 0OFFLOAD2 0RELOAD1 0B0 0RELOAD2 0B1 0B2");
  EXPECT_EQ(after_text(program, 0),
            "0RELOAD0 after 0F1, 0F2 after 0OFFLOAD0, 0RELOAD1 after 0F2, 0B0 after 0OFFLOAD1, "
            "0RELOAD2 after 0B0, 0B1 after 0OFFLOAD2");
  EXPECT_EQ(row_text(lowered(forwards(), {.order = IssueOrder::global, .offload = percent(kAll)}), 0),
            row_text(lowered(forwards(), {.order = IssueOrder::global}), 0));
  EXPECT_EQ(row_text(lowered(two_ranks(), {.order = IssueOrder::global, .offload = percent(kAll)}), 0),
            row_text(lowered(two_ranks(), {.order = IssueOrder::global}), 0));
}

// 0F3 ends at 8 and 0B3 starts at 14: RELOAD, which takes 3, is in time behind 0B0, which ends at 10.
TEST(Lowering, TimedReloadsAsLateAsTheBackwardAllows) {
  CostTable table = unit_cost_table({.F = 2, .B = 2, .c = 0});
  table.set({OpKind::offload}, 2 * kUnitTime);
  table.set({OpKind::reload}, 3 * kUnitTime);
  const LoweringOptions options{.order = IssueOrder::timed, .offload = percent(25)};
  const Program program = lowered(one_rank_schedule(4), options, &table);
  EXPECT_EQ(row_text(program, 0), "0F0 0F1 0F2 0F3 0OFFLOAD3 0B0 0RELOAD3 0B1 0B2 0B3");
  EXPECT_EQ(after_text(program, 0), "0RELOAD3 after 0B0");
}

// Copies of 4 beside actions of 2: between 0F3 and 0B3 there is no time for two.
TEST(Lowering, TimedOffloadsNothingThatWouldBeLate) {
  CostTable table = unit_cost_table({.F = 2, .B = 2, .c = 0});
  table.set({OpKind::offload}, 4 * kUnitTime);
  table.set({OpKind::reload}, 4 * kUnitTime);
  const LoweringOptions options{.order = IssueOrder::timed, .offload = percent(kAll)};
  EXPECT_EQ(row_text(lowered(one_rank_schedule(4), options, &table), 0), "0F0 0F1 0F2 0F3 0B0 0B1 0B2 0B3");
}

TEST(Lowering, OffloadsHalfEvenlyOverMicrobatches) {
  EXPECT_EQ(row_text(lowered(one_rank_schedule(6), {.order = IssueOrder::global, .offload = percent(50)}), 0),
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
  EXPECT_EQ(
      row_text(lowered(builder.build().value(), {.order = IssueOrder::global, .offload = percent(kAll)}), 0),
      "0F0 0F1 0OFFLOAD1 0R0 0RELOAD1 0B0 0B1");
}

TEST(Lowering, RefusesToAddWhatTheScheduleHas) {
  ScheduleBuilder builder("with OPT", test::chain(1, 1, 1));
  builder.add(OpKind::forward, StageId(0), MicrobatchId(0))
      .add(OpKind::backward, StageId(0), MicrobatchId(0));
  builder.add(RankId(0), Cell(Action{0, 0, -1, 0, OpKind::optimizer}));
  const Schedule schedule = builder.build().value();
  EXPECT_EQ(refusal(schedule, {}), "");
  EXPECT_EQ(refusal(schedule, {.optimizer = true}),
            "the schedule has OPT already, and opt would add it again");
}

TEST(Lowering, WhatArrivesForNobodyStaysWhereItIs) {
  ScheduleBuilder builder("a last UNSHARD", test::chain(1, 1, 1));
  const auto shard = [](OpKind kind) { return Cell(Action{0, -1, -1, 0, kind}); };
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
  const Program program = lowered(forwards(), {.order = IssueOrder::global, .load = true});
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
  EXPECT_EQ(
      program.pipeline().spec().collectives[CollectiveId(0)],
      (Collective{
          .name = "norm", .members = {RankId(0), RankId(1)}, .purpose = CollectivePurpose::gradient_norm}));
  EXPECT_TRUE(test::finishes(program));
}

TEST(Lowering, UpdatesAddNothingToInference) {
  const Program program = lowered(forwards(), {.reduce_grad = true, .optimizer = true, .clip = true});
  EXPECT_EQ(row_text(program, 0), row_text(lowered(forwards()), 0));
}

// Embeddings tied between the first and the last of four stages on two ranks, which end their gradients at
// different times: a rank computes on while the other is not there yet.
TEST(Lowering, AReductionOverRanksWaitsForAllAndLetsComputePass) {
  PipelineSpec spec{.ranks = 2, .stages = 4, .microbatches = 1};
  spec.blocks = {{{StageId(0), StageId(3)}}, {{StageId(1)}}, {{StageId(2)}}};
  const Schedule schedule = schedule_of(Pipeline::make(spec).value(), {"0F0 2F0 2B0 0B0", "1F0 3F0 3B0 1B0"});
  const Program program = lowered(schedule, {.reduce_grad = true});
  EXPECT_EQ(
      row_text(program, 1),
      "1RECV_F0 1F0 1SEND_F0 3RECV_F0 3F0 3B0 3SEND_B0 1RECV_B0 1B0 1SEND_B0 1REDUCE_GRAD 0REDUCE_GRAD");
  EXPECT_EQ(test::first_violation(program), "");
  EXPECT_TRUE(test::finishes(program));
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
