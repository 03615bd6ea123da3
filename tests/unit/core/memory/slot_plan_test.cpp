#include "ppsim/core/memory/slot_plan.hpp"

#include <gtest/gtest.h>

#include "ppsim/core/memory/tensor_order.hpp"
#include "support/hand_program.hpp"

namespace ppsim::test {
namespace {

SlotPlan plan_of(const Program& program, const SizeTable& sizes, Bytes alignment = 1) {
  const AnalyzedProgram analyzed(program, rendezvous());
  return plan_slots_within(analyzed, tensor_sizes(analyzed.tensors(), sizes), {}, alignment).value();
}

Program one_rank(int microbatches, std::vector<std::string> row) {
  return HandProgram{.pipeline = chain_spec(1, 1, microbatches),
                     .communicators = communicators({{0}}),
                     .rows = {std::move(row)}}
      .build();
}

TEST(SlotPlan, OneSlotServesMicrobatchesInTurn) {
  const Program program = one_rank(3, {"0F0", "0B0", "0F1", "0B1", "0F2", "0B2"});
  EXPECT_EQ(plan_of(program, activation_size_table(5)).pool_bytes[RankId(0)], 5);
}

TEST(SlotPlan, AsManySlotsAsLiveActivations) {
  const Program program = one_rank(4, {"0F0", "0F1", "0B0", "0F2", "0B1", "0F3", "0B2", "0B3"});
  EXPECT_EQ(plan_of(program, activation_size_table(5)).pool_bytes[RankId(0)], 10);
}

TEST(SlotPlan, WhatMayStillBeInUseIsNotShared) {
  // LOAD of microbatch 1 may start before F0 has read its batch; with `after` it may not.
  SizeTable sizes;
  sizes.set({.kind = TensorKind::boundary_input}, 8);
  const Program free = one_rank(2, {"0LOAD0", "0F0", "0B0", "0LOAD1", "0F1", "0B1"});
  EXPECT_EQ(plan_of(free, sizes).pool_bytes[RankId(0)], 16);
  const Program ordered = one_rank(2, {"0LOAD0", "0F0", "0B0", "0LOAD1 after 2", "0F1", "0B1"});
  EXPECT_EQ(plan_of(ordered, sizes).pool_bytes[RankId(0)], 8);
}

TEST(SlotPlan, AChainOverTheOtherRankOrdersToo) {
  // y of microbatch 0 is out once its gradient is back.
  SizeTable sizes;
  sizes.set({.kind = TensorKind::boundary_output}, 8);
  HandProgram hand{
      .pipeline = chain_spec(2, 2, 2),
      .communicators = communicators({{0, 1}, {0, 1}}),
      .rows = {{"0F0", "0SEND_F0@0", "0RECV_B0@1", "0B0", "0F1", "0SEND_F1@0", "0RECV_B1@1", "0B1"},
               {"1RECV_F0@0", "1F0", "1B0", "1SEND_B0@1", "1RECV_F1@0", "1F1", "1B1", "1SEND_B1@1"}}};
  EXPECT_EQ(plan_of(hand.build(), sizes).pool_bytes[RankId(0)], 8);
  // Without the wait for the gradient the SEND may still be in flight when F1 writes.
  hand.rows[0] = {"0F0", "0SEND_F0@0", "0F1", "0SEND_F1@0", "0RECV_B0@1", "0B0", "0RECV_B1@1", "0B1"};
  EXPECT_EQ(plan_of(hand.build(), sizes).pool_bytes[RankId(0)], 16);
}

TEST(SlotPlan, WhatStaysIsNeverShared) {
  SizeTable sizes;
  sizes.set({.kind = TensorKind::parameters}, 100);
  sizes.set({.kind = TensorKind::gradients}, 50);
  sizes.set({.kind = TensorKind::workspace, .op = OpKind::forward}, 30);
  // The workspace of F ends before the gradients begin; parameters are there throughout.
  const Program program = one_rank(1, {"0F0", "0B0"});
  EXPECT_EQ(plan_of(program, sizes).pool_bytes[RankId(0)], 150);
}

TEST(SlotPlan, OffsetsAreAligned) {
  const Program program = one_rank(2, {"0F0", "0F1", "0B0", "0B1"});
  const SlotPlan plan = plan_of(program, activation_size_table(5), 64);
  EXPECT_EQ(plan.pool_bytes[RankId(0)], 128);
  for (const Bytes offset : plan.offset) EXPECT_EQ(offset % 64, 0);
}

TEST(SlotPlan, MixedSizesShareTightly) {
  SizeTable sizes = activation_size_table(6);
  sizes.set({.kind = TensorKind::workspace, .op = OpKind::forward}, 2);
  sizes.set({.kind = TensorKind::workspace, .op = OpKind::backward}, 4);
  // At most one activation and one workspace at a time, or two of each in turn.
  EXPECT_EQ(plan_of(one_rank(2, {"0F0", "0B0", "0F1", "0B1"}), sizes).pool_bytes[RankId(0)], 10);
}

TEST(TensorOrder, IsTheOrderOfLifetimes) {
  const Program program = one_rank(2, {"0F0", "0B0", "0F1", "0B1"});
  const ExecutionGraph graph = build_execution_graph(program, rendezvous());
  const TensorTable table = tensor_table(program);
  const HappensBefore clocks =
      HappensBefore::of_rank(program, graph, ClockPlan(graph, run_order(graph)), RankId(0));
  const TensorOrder order(table, clocks, RankId(0));
  EXPECT_EQ(order.first(), 0U);
  EXPECT_EQ(order.last(), table.tensors.size());
  const auto find = [&](TensorKind kind, int microbatch) {
    for (std::uint32_t t = 0; t < table.tensors.size(); ++t) {
      if (table.tensors[t].size_class.kind == kind && table.tensors[t].microbatch == microbatch) return t;
    }
    throw std::out_of_range("no such tensor");
  };
  const std::uint32_t first = find(TensorKind::saved_for_input, 0);
  const std::uint32_t second = find(TensorKind::saved_for_input, 1);
  EXPECT_TRUE(order.before(first, second));
  EXPECT_FALSE(order.before(second, first));
  EXPECT_FALSE(order.before(first, first));
  const std::uint32_t weights = find(TensorKind::parameters, 0);
  EXPECT_FALSE(order.before(weights, second));
  EXPECT_FALSE(order.before(first, weights));
  const std::uint32_t batch = find(TensorKind::boundary_input, 0);
  EXPECT_TRUE(order.before(batch, second));
  EXPECT_FALSE(order.before(second, batch));
}

}  // namespace
}  // namespace ppsim::test
