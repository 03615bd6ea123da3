#include "ppsim/core/ir/replicas.hpp"

#include <gtest/gtest.h>

#include "ppsim/core/lowering/lowering.hpp"
#include "ppsim/schedules/registry.hpp"

namespace ppsim {
namespace {

Schedule schedule(const std::string& name, ScheduleParameters parameters) {
  return generate(name, parameters).value();
}

TEST(Replicas, OneIsTheScheduleItself) {
  const Schedule one = schedule("1f1b", {.ranks = 2, .microbatches = 4});
  EXPECT_EQ(replicated(one, 1).value(), one);
}

TEST(Replicas, HaveRanksStagesAndMicrobatchesOfTheirOwnAndShareBlocks) {
  const Schedule one = schedule("1f1b", {.ranks = 2, .microbatches = 4});
  const Schedule all = replicated(one, 3).value();
  const Pipeline& pipeline = all.pipeline();
  EXPECT_EQ(pipeline.ranks(), 6);
  EXPECT_EQ(pipeline.stages(), 6);
  EXPECT_EQ(pipeline.microbatches(), 12);
  EXPECT_EQ(pipeline.blocks(), 2);
  EXPECT_EQ(pipeline.spec().blocks[BlockId(1)].stages, (std::vector{StageId(1), StageId(3), StageId(5)}));
  EXPECT_EQ(pipeline.rank_of(StageId(5)), RankId(5));
  EXPECT_TRUE(pipeline.on_route(StageId(4), MicrobatchId(8)));
  EXPECT_FALSE(pipeline.on_route(StageId(4), MicrobatchId(7)));
  ASSERT_EQ(all.row(RankId(5)).size(), one.row(RankId(1)).size());
  EXPECT_EQ(one.row(RankId(1))[0].actions()[0], make_action(OpKind::forward, 1, 0));
  EXPECT_EQ(all.row(RankId(5))[0].actions()[0], make_action(OpKind::forward, 5, 8));
}

TEST(Replicas, KeepTheSharedBlocksCollectivesAndPairsOfASchedule) {
  const Schedule vocab = schedule("vocab-1", {.ranks = 2, .microbatches = 4});
  const PipelineSpec& one = vocab.pipeline().spec();
  const Schedule twice = replicated(vocab, 2).value();
  const PipelineSpec& all = twice.pipeline().spec();
  ASSERT_EQ(all.collectives.size(), 2 * one.collectives.size());
  const Collective& first = one.collectives.items().front();
  const Collective& second = all.collectives.items()[one.collectives.size()];
  ASSERT_EQ(second.members.size(), first.members.size());
  EXPECT_EQ(second.members.front(), RankId(first.members.front().value() + 2));
  const Schedule bidirectional = schedule("dualpipe", {.ranks = 2, .microbatches = 4});
  const Schedule both = replicated(bidirectional, 2).value();
  EXPECT_EQ(both.pipeline().spec().blocks[BlockId(0)].stages.size(), 4U);
  EXPECT_EQ(both.action_count(), 2 * bidirectional.action_count());
}

TEST(Replicas, LowerToOneReduceGradOverAllOwnersOfABlock) {
  LoweringOptions options;
  options.reduce_grad = true;
  const Schedule all = replicated(schedule("1f1b", {.ranks = 2, .microbatches = 4}), 2).value();
  const Program program = lower(all, options).value();
  for (int r = 0; r < 4; ++r) {
    const InstructionId last(program.last(RankId(r)).value() - 1);
    EXPECT_EQ(program.actions(last).front(), make_action(OpKind::reduce_grad, r % 2, 0));
    const auto& members = program.communicator(program.communicators_of(last).front()).members;
    EXPECT_EQ(members, (std::vector{RankId(r % 2), RankId(r % 2 + 2)}));
  }
}

TEST(Replicas, CostWhatTheScheduleCosts) {
  const Pipeline pipeline = schedule("1f1b", {.ranks = 2, .microbatches = 4}).pipeline();
  CostTable costs;
  costs.set({.kind = OpKind::forward}, 5);
  costs.set({.kind = OpKind::forward, .subject = 1}, 7);
  costs.set({.kind = OpKind::send_forward, .subject = 0, .peer = 1}, 3);
  costs.set({.kind = OpKind::reduce_grad, .subject = 1}, 11);
  const CostTable all = replicated(costs, pipeline, 2);
  EXPECT_EQ(all({.kind = OpKind::forward, .subject = 2}), 5);
  EXPECT_EQ(all({.kind = OpKind::forward, .subject = 3}), 7);
  EXPECT_EQ(all({.kind = OpKind::send_forward, .subject = 2, .peer = 3}), 3);
  EXPECT_EQ(all({.kind = OpKind::reduce_grad, .subject = 1}), 11);
  EXPECT_EQ(all({.kind = OpKind::reduce_grad, .subject = 3}), 0);
  SizeTable sizes;
  sizes.set({.kind = TensorKind::parameters, .subject = 1}, 64);
  sizes.set({.kind = TensorKind::saved_for_input, .subject = 1}, 128);
  const SizeTable of_all = replicated(sizes, pipeline, 2);
  EXPECT_EQ(of_all({.kind = TensorKind::parameters, .subject = 3}), 0);
  EXPECT_EQ(of_all({.kind = TensorKind::saved_for_input, .subject = 3}), 128);
}

TEST(Replicas, RefuseWhatIsNoCount) {
  const Schedule one = schedule("1f1b", {.ranks = 2, .microbatches = 4});
  for (const int count : {0, -1, 1 << 30}) {
    const auto all = replicated(one, count);
    ASSERT_FALSE(all);
    EXPECT_EQ(all.error().code, ErrorCode::bad_argument);
    EXPECT_EQ(all.error().place.found, std::to_string(count));
  }
}

}  // namespace
}  // namespace ppsim
