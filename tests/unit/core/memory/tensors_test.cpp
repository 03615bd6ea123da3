#include "ppsim/core/memory/tensors.hpp"

#include <gtest/gtest.h>

#include "support/hand_program.hpp"

namespace ppsim::test {
namespace {

using enum TensorKind;

/// One stage on one rank.
HandProgram alone(int microbatches, std::vector<std::string> row) {
  return {.pipeline = chain_spec(1, 1, microbatches),
          .communicators = communicators({{0}}),
          .rows = {std::move(row)}};
}

/// A chain of two stages on two ranks, one microbatch, directed edges.
HandProgram pair_of_ranks(std::vector<std::string> first, std::vector<std::string> second) {
  return {.pipeline = chain_spec(2, 2, 1),
          .communicators = communicators({{0, 1}, {0, 1}}),
          .rows = {std::move(first), std::move(second)}};
}

Program full_step() {
  return pair_of_ranks({"0F0", "0SEND_F0@0", "0RECV_B0@1", "0B0"}, {"1RECV_F0@0", "1F0", "1B0", "1SEND_B0@1"})
      .build();
}

TEST(Tensors, FullBackwardOnTheFirstRank) {
  const Program program = full_step();
  EXPECT_EQ(lifetimes(program, 0, parameters, 0), "start -> end");
  EXPECT_EQ(lifetimes(program, 0, optimizer_state, 0), "start -> end");
  EXPECT_EQ(lifetimes(program, 0, gradients, 0), "3 -> end");
  EXPECT_EQ(lifetimes(program, 0, boundary_input, 0), "start -> 0,3");
  EXPECT_EQ(lifetimes(program, 0, boundary_output, 0), "0 -> 0,1");
  EXPECT_EQ(lifetimes(program, 0, saved_for_input, 0), "0 -> 0,3");
  EXPECT_EQ(lifetimes(program, 0, saved_for_weight, 0), "0 -> 0,3");
  EXPECT_EQ(lifetimes(program, 0, incoming_gradient, 0), "2 -> 2,3");
  EXPECT_EQ(lifetimes(program, 0, outgoing_gradient, 0), "");
  EXPECT_EQ(lifetimes(program, 0, inner_gradients, 0), "");
  EXPECT_EQ(lifetimes(program, 0, workspace, 0), "0 -> 0; 3 -> 3");
}

TEST(Tensors, FullBackwardOnTheLastRank) {
  const Program program = full_step();
  EXPECT_EQ(lifetimes(program, 1, boundary_input, 1), "0 -> 0,1,2");
  EXPECT_EQ(lifetimes(program, 1, boundary_output, 1), "");
  EXPECT_EQ(lifetimes(program, 1, saved_for_weight, 1), "1 -> 1,2");
  EXPECT_EQ(lifetimes(program, 1, incoming_gradient, 1), "");
  EXPECT_EQ(lifetimes(program, 1, outgoing_gradient, 1), "2 -> 2,3");
  EXPECT_EQ(lifetimes(program, 1, parameters, 0), "");
}

TEST(Tensors, InferenceHasNoOptimizerStateAndKeepsNothing) {
  const Program program = alone(2, {"0F0", "0F1"}).build();
  EXPECT_EQ(lifetimes(program, 0, parameters, 0), "start -> end");
  EXPECT_EQ(lifetimes(program, 0, optimizer_state, 0), "");
  EXPECT_EQ(lifetimes(program, 0, saved_for_weight, 0), "0 -> 0; 1 -> 1");
}

TEST(Tensors, SizeClassesNameStageBlockAndEdge) {
  const TensorTable table = tensor_table(full_step());
  const Tensor dy = tensors_of(table, 0, incoming_gradient, 0).at(0);
  EXPECT_EQ(dy.size_class, (SizeClass{.kind = incoming_gradient, .subject = 0, .peer = 1, .slice = 0}));
  EXPECT_EQ(dy.microbatch, 0);
  const Tensor dx = tensors_of(table, 1, outgoing_gradient, 1).at(0);
  EXPECT_EQ(dx.size_class, (SizeClass{.kind = outgoing_gradient, .subject = 1, .peer = 0, .slice = 0}));
  const Tensor scratch = tensors_of(table, 1, workspace, 1).at(1);
  EXPECT_EQ(scratch.size_class,
            (SizeClass{.kind = workspace, .subject = 1, .slice = 0, .op = OpKind::backward}));
  EXPECT_EQ(tensors_of(table, 1, optimizer_state, 1).at(0).microbatch, -1);
}

TEST(Tensors, SplitBackwardKeepsWhatTheWeightsNeed) {
  const Program program = pair_of_ranks({"0F0", "0SEND_F0@0", "0RECV_B0@1", "0I0", "0W0"},
                                        {"1RECV_F0@0", "1F0", "1I0", "1SEND_B0@1", "1W0"})
                              .build();
  EXPECT_EQ(lifetimes(program, 1, boundary_input, 1), "0 -> 0,1,2,4");
  EXPECT_EQ(lifetimes(program, 1, saved_for_input, 1), "1 -> 1,2");
  EXPECT_EQ(lifetimes(program, 1, saved_for_weight, 1), "1 -> 1,2,4");
  EXPECT_EQ(lifetimes(program, 1, inner_gradients, 1), "2 -> 2,4");
  EXPECT_EQ(lifetimes(program, 1, gradients, 1), "4 -> end");
  EXPECT_EQ(lifetimes(program, 1, outgoing_gradient, 1), "2 -> 2,3");
  EXPECT_EQ(lifetimes(program, 0, incoming_gradient, 0), "2 -> 2,3,4");
}

TEST(Tensors, OnOneRankTheInputIsTheProducersOutput) {
  const Program program = HandProgram{
      .pipeline = chain_spec(1, 2, 1),
      .rows = {{"0F0", "1F0", "1I0", "0I0", "1W0",
                "0W0"}}}.build();
  EXPECT_EQ(lifetimes(program, 0, boundary_output, 0), "0 -> 0,1,2,4");
  EXPECT_EQ(lifetimes(program, 0, boundary_input, 1), "");
  EXPECT_EQ(lifetimes(program, 0, incoming_gradient, 0), "2 -> 2,3,5");
  EXPECT_EQ(lifetimes(program, 0, outgoing_gradient, 1), "");
}

TEST(Tensors, ForwardOnlyEndsWithTheLastUserThatOccurs) {
  const Program program = pair_of_ranks({"0F0", "0SEND_F0@0"}, {"1RECV_F0@0", "1F0"}).build();
  EXPECT_EQ(lifetimes(program, 0, saved_for_weight, 0), "0 -> 0");
  EXPECT_EQ(lifetimes(program, 0, boundary_input, 0), "start -> 0");
  EXPECT_EQ(lifetimes(program, 1, boundary_input, 1), "0 -> 0,1");
  EXPECT_EQ(lifetimes(program, 0, gradients, 0), "");
}

TEST(Tensors, WhatNothingReadsLivesUntilItIsWritten) {
  const Program program = pair_of_ranks({"0F0", "0SEND_F0@0"}, {"1RECV_F0@0"}).build();
  EXPECT_EQ(lifetimes(program, 1, boundary_input, 1), "0 -> 0");
}

TEST(Tensors, RecomputeWritesTheSavedActivations) {
  const Program program = alone(1, {"0F0", "0R0", "0B0"}).build();
  EXPECT_EQ(lifetimes(program, 0, saved_for_input, 0), "1 -> 1,2");
  EXPECT_EQ(lifetimes(program, 0, saved_for_weight, 0), "1 -> 1,2");
  EXPECT_EQ(lifetimes(program, 0, boundary_input, 0), "start -> 0,1,2");
}

TEST(Tensors, RecomputeOfOneMicrobatchLeavesTheOthersAlone) {
  const Program program = alone(2, {"0F0", "0F1", "0R0", "0B0", "0B1"}).build();
  EXPECT_EQ(lifetimes(program, 0, saved_for_input, 0), "1 -> 1,4; 2 -> 2,3");
}

TEST(Tensors, OffloadedActivationsAreTwoTensors) {
  const Program program = alone(1, {"0F0", "0OFFLOAD0", "0RELOAD0", "0I0", "0W0"}).build();
  EXPECT_EQ(lifetimes(program, 0, saved_for_input, 0), "0 -> 0,1; 2 -> 2,3");
  EXPECT_EQ(lifetimes(program, 0, saved_for_weight, 0), "0 -> 0,1; 2 -> 2,3,4");
}

TEST(Tensors, LentActivationsLiveOnOneRankAtATime) {
  const Program program =
      pair_of_ranks({"0F0", "0SEND_A0>1@0", "0RECV_A0<1@1", "0B0"}, {"0RECV_A0<0@0", "0SEND_A0>0@1"}).build();
  EXPECT_EQ(lifetimes(program, 0, saved_for_input, 0), "0 -> 0,1; 2 -> 2,3");
  EXPECT_EQ(lifetimes(program, 0, saved_for_weight, 0), "0 -> 0,1; 2 -> 2,3");
  EXPECT_EQ(lifetimes(program, 0, lent_activations, 0), "");
  EXPECT_EQ(lifetimes(program, 1, lent_activations, 0), "0 -> 0,1");
  EXPECT_EQ(lifetimes(program, 1, saved_for_input, 0), "");
}

TEST(Tensors, LoadWritesTheBatch) {
  const Program program = alone(2, {"0LOAD0", "0F0", "0B0", "0F1", "0B1"}).build();
  EXPECT_EQ(lifetimes(program, 0, boundary_input, 0), "start -> 3,4; 0 -> 0,1,2");
}

TEST(Tensors, GatheredParametersLiveFromUnshardToReshard) {
  const Program program =
      alone(1, {"0UNSHARD@0", "0F0", "0RESHARD", "0UNSHARD@0", "0B0", "0RESHARD"}).build();
  EXPECT_EQ(lifetimes(program, 0, gathered_parameters, 0), "0 -> 0,1,2; 3 -> 3,4,5");
}

TEST(Tensors, ComputationOutsideUnshardAndReshardTouchesNoGatheredParameters) {
  const Program program = alone(2, {"0RESHARD", "0F0", "0UNSHARD@0", "0F1", "0RESHARD", "0B1"}).build();
  EXPECT_EQ(lifetimes(program, 0, gathered_parameters, 0), "2 -> 2,3,4");
}

TEST(Tensors, GradientsEndWithTheOptimizer) {
  const Program program = alone(2, {"0F0", "0B0", "0F1", "0B1", "0REDUCE_GRAD@0", "0OPT0"}).build();
  EXPECT_EQ(lifetimes(program, 0, gradients, 0), "1,3 -> 1,3,4,5");
  EXPECT_EQ(lifetimes(program, 0, parameters, 0), "start -> end");
  EXPECT_EQ(lifetimes(program, 0, workspace, 0), "0 -> 0; 1 -> 1; 2 -> 2; 3 -> 3; 5 -> 5");
}

TEST(Tensors, SharedBlocksAreOneTensorPerRank) {
  HandProgram hand{.pipeline = chain_spec(1, 2, 1), .rows = {{"0F0", "1F0", "1B0", "0B0"}}};
  hand.pipeline.blocks = {ParameterBlock{{StageId(0), StageId(1)}}};
  const Program program = hand.build();
  EXPECT_EQ(lifetimes(program, 0, parameters, 0), "start -> end");
  EXPECT_EQ(lifetimes(program, 0, gradients, 0), "2,3 -> end");
}

TEST(Tensors, GradientsOfEdgesAndOneOutputInADag) {
  HandProgram hand{.pipeline = chain_spec(3, 3, 1),
                   .communicators = communicators({{0, 1, 2}}),
                   .rows = {{"0F0", "0SEND_F0>1@0", "0SEND_F0>2@0", "0RECV_B0<1@0", "0RECV_B0<2@0", "0B0"},
                            {"1RECV_F0@0", "1F0", "1SEND_F0@0", "1RECV_B0@0", "1B0", "1SEND_B0@0"},
                            {"2RECV_F0<0@0", "2RECV_F0<1@0", "2F0", "2B0", "2SEND_B0>0@0", "2SEND_B0>1@0"}}};
  hand.pipeline.edges = {{StageId(0), StageId(1)}, {StageId(0), StageId(2)}, {StageId(1), StageId(2)}};
  const Program program = hand.build();
  EXPECT_EQ(lifetimes(program, 0, boundary_output, 0), "0 -> 0,1,2");
  EXPECT_EQ(lifetimes(program, 0, incoming_gradient, 0), "3 -> 3,5; 4 -> 4,5");
  EXPECT_EQ(lifetimes(program, 2, boundary_input, 2), "0,1 -> 0,1,2,3");
  EXPECT_EQ(lifetimes(program, 2, outgoing_gradient, 2), "3 -> 3,4; 3 -> 3,5");
}

TEST(Tensors, SlicesHaveTheirOwnTensorsAndOneGradientOfKeysAndValues) {
  HandProgram hand = alone(1, {"0F0.0", "0F0.1", "0B0.1", "0B0.0"});
  hand.pipeline.slices = 2;
  const Program program = hand.build();
  EXPECT_EQ(lifetimes(program, 0, saved_for_input, 0), "0 -> 0,3; 1 -> 1,2");
  EXPECT_EQ(lifetimes(program, 0, boundary_input, 0), "start -> 0,3; start -> 1,2");
  EXPECT_EQ(lifetimes(program, 0, kv_gradient, 0), "2 -> 2,3");
  EXPECT_EQ(lifetimes(full_step(), 0, kv_gradient, 0), "");
}

TEST(Tensors, AnOverlappedPairTouchesForBothHalves) {
  const Program program = alone(2, {"0F0", "(0F1;0B0)OVERLAP_F_B", "0B1"}).build();
  EXPECT_EQ(lifetimes(program, 0, saved_for_input, 0), "0 -> 0,1; 1 -> 1,2");
  EXPECT_EQ(lifetimes(program, 0, workspace, 0), "0 -> 0; 1 -> 1; 1 -> 1; 2 -> 2");
}

TEST(Tensors, AGroupTouchesForItsMembers) {
  const Program program =
      pair_of_ranks({"0F0", "{0SEND_F0@0 0RECV_B0@1}", "0B0"}, {"{1RECV_F0@0 1SEND_B0@1}", "1F0", "1B0"})
          .build();
  EXPECT_EQ(lifetimes(program, 0, boundary_output, 0), "0 -> 0,1");
  EXPECT_EQ(lifetimes(program, 0, incoming_gradient, 0), "1 -> 1,2");
}

TEST(Tensors, MisplacedActionsAndSendsOfNothingTouchNothing) {
  const Program program = pair_of_ranks({"0SEND_F0@0", "1F0", "1RECV_F0@0"}, {"1RECV_F0@0"}).build();
  EXPECT_EQ(lifetimes(program, 0, boundary_output, 0), "");
  EXPECT_EQ(lifetimes(program, 0, boundary_input, 1), "");
  EXPECT_EQ(lifetimes(program, 0, saved_for_input, 1), "");
  EXPECT_EQ(lifetimes(program, 0, workspace, 1), "");
}

TEST(Tensors, ARepeatedActionWritesTheSameTensorAgain) {
  const Program program = alone(1, {"0F0", "0F0", "0B0"}).build();
  EXPECT_EQ(lifetimes(program, 0, saved_for_input, 0), "0,1 -> 0,1,2");
}

TEST(Tensors, TableIsInOrderOfRankAndFirstWriter) {
  const TensorTable table = tensor_table(full_step());
  for (std::size_t i = 1; i < table.tensors.size(); ++i) {
    const Tensor& a = table.tensors[i - 1];
    const Tensor& b = table.tensors[i];
    ASSERT_LE(a.rank, b.rank);
    if (a.rank != b.rank || a.from_start) continue;
    ASSERT_FALSE(b.from_start);
    EXPECT_LE(table.writers_of(a).front(), table.writers_of(b).front());
  }
  EXPECT_TRUE(table.tensors.front().from_start);
}

TEST(Tensors, SizesFollowTheClasses) {
  SizeTable sizes;
  sizes.set({.kind = saved_for_weight}, 7);
  sizes.set({.kind = workspace, .op = OpKind::backward}, 11);
  const TensorTable table = tensor_table(full_step());
  const std::vector<Bytes> bytes = tensor_sizes(table, sizes);
  ASSERT_EQ(bytes.size(), table.tensors.size());
  Bytes total = 0;
  for (const Bytes b : bytes) total += b;
  EXPECT_EQ(total, 2 * 7 + 2 * 11);
}

TEST(Tensors, PayloadOfEachSend) {
  EXPECT_EQ(payload_class(at_slice(make_transfer(OpKind::send_forward, 2, 5, 3), 1)),
            (SizeClass{.kind = boundary_output, .subject = 2, .peer = 3, .slice = 1}));
  EXPECT_EQ(payload_class(make_transfer(OpKind::send_backward, 3, 5, 2)),
            (SizeClass{.kind = incoming_gradient, .subject = 2, .peer = 3, .slice = 0}));
  EXPECT_EQ(payload_class(make_transfer(OpKind::send_activation, 3, 5, 0)),
            (SizeClass{.kind = lent_activations, .subject = 3, .slice = 0}));
  EXPECT_THROW((void)payload_class(make_action(OpKind::forward, 0, 0)), std::logic_error);
}

}  // namespace
}  // namespace ppsim::test
