#include <gtest/gtest.h>

#include "ppsim/core/lowering/lowering.hpp"
#include "support/hand_program.hpp"
#include "support/linear_model.hpp"
#include "support/programs.hpp"
#include "support/row_text.hpp"

namespace ppsim::test {
namespace {

/// GPipe over two ranks with one stage each.
Schedule two_rank_schedule() { return schedule_of(chain(2, 2, 2), {"0F0 0F1 0B0 0B1", "1F0 1F1 1B0 1B1"}); }

Program lowered(const Schedule& schedule, const LoweringOptions& options) {
  auto program = lower(schedule, options);
  if (!program) throw std::invalid_argument(to_string(program.error()));
  return *std::move(program);
}

bool contains(const Program& program, OpKind kind) {
  const auto actions = program.all_actions();
  return std::any_of(actions.begin(), actions.end(), [&](const Action& a) { return a.kind == kind; });
}

HandProgram one_rank(std::vector<std::string> row, int microbatches = 2) {
  return {.pipeline = chain_spec(1, 2, microbatches),
          .communicators = communicators({{0}}),
          .rows = {std::move(row)}};
}

TEST(ExecutorActions, StagesOfOneRankShareTheirTensors) {
  EXPECT_EQ(against_reference(one_rank({"0F0", "0F1", "1F0", "1F1", "1B0", "1B1", "0B0", "0B1"}).build(),
                              unverified()),
            "equal");
}

TEST(ExecutorActions, InputAndWeightGradientsApart) {
  EXPECT_EQ(against_reference(
                one_rank({"0F0", "1F0", "0F1", "1F1", "1I0", "1I1", "0I0", "0I1", "0W1", "1W0", "1W1", "0W0"})
                    .build(),
                unverified()),
            "equal");
}

TEST(ExecutorActions, RecomputeMakesWhatForwardDidNotKeep) {
  EXPECT_EQ(against_reference(one_rank({"0F0", "1F0", "0F1", "1F1", "1R0", "1B0", "0R0", "0I0", "1R1", "1I1",
                                        "0W0", "0B1", "1W1"})
                                  .build(),
                              unverified()),
            "equal");
}

TEST(ExecutorActions, AnOverlappedPairRunsBoth) {
  EXPECT_EQ(
      against_reference(one_rank({"0F0", "1F0", "0F1", "(1F1;1B0)OVERLAP_F_B", "1B1", "0B0", "0B1"}).build(),
                        unverified()),
      "equal");
}

TEST(ExecutorActions, LentActivationsComeBackUnchanged) {
  HandProgram hand{.pipeline = chain_spec(2, 2, 2),
                   .communicators = communicators({{0, 1}, {0, 1}, {0, 1}, {0, 1}}),
                   .rows = {{"0F0", "0SEND_F0@0", "0SEND_A0>1@2", "0F1", "0SEND_F1@0", "0RECV_A0<1@3",
                             "0RECV_B0@1", "0B0", "0RECV_B1@1", "0B1"},
                            {"0RECV_A0<0@2", "1RECV_F0@0", "1F0", "1B0", "1RECV_F1@0", "1F1", "0SEND_A0>0@3",
                             "1SEND_B0@1", "1B1", "1SEND_B1@1"}}};
  EXPECT_EQ(against_reference(hand.build(), unverified()), "equal");
  EXPECT_EQ(against_reference(hand.build(), unverified(1)), "equal");
}

TEST(ExecutorActions, OffloadedActivationsComeBackUnchanged) {
  HandProgram hand = one_rank({"0F0", "0OFFLOAD0", "1F0", "0F1", "0OFFLOAD1", "1F1", "1B0", "1B1", "0RELOAD1",
                               "0RELOAD0", "0I0", "0B1", "0W0"});
  EXPECT_EQ(against_reference(hand.build(), unverified()), "equal");
}

TEST(ExecutorActions, WhatIsMadeAgainIsNotThereToMove) {
  const Program program = one_rank({"0F0", "0OFFLOAD0", "1F0", "1B0", "0R0", "0RELOAD0", "0B0"}, 1).build();
  const auto result = execute(program, LinearModel(), unverified());
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, ErrorCode::ill_formed);
  // The waits of the others at that moment follow it.
  EXPECT_EQ(result.error().message.substr(0, result.error().message.find('\n')),
            "rank 0: 0OFFLOAD0 moves activations that an R is yet to make");
}

TEST(ExecutorActions, ALoadThatIsListedLateStillFeedsItsForward) {
  HandProgram hand = one_rank({"0F0", "0LOAD0", "1F0", "1B0", "0B0"}, 1);
  EXPECT_EQ(against_reference(hand.build(), unverified()), "equal");
}

TEST(ExecutorActions, GatheredParametersAreThoseOfTheBlock) {
  HandProgram hand = one_rank({"0UNSHARD@0", "0F0", "1UNSHARD@0", "1F0", "0RESHARD", "1B0", "1RESHARD",
                               "0UNSHARD@0", "0B0", "0RESHARD"},
                              1);
  EXPECT_EQ(against_reference(hand.build(), unverified()), "equal");
}

TEST(ExecutorActions, LoadFetchesTheBatch) {
  HandProgram hand = one_rank({"0LOAD0", "0F0", "0LOAD1", "1F0", "0F1", "1F1", "1B1", "1B0", "0B0", "0B1"});
  EXPECT_EQ(against_reference(hand.build(), unverified()), "equal");
}

TEST(ExecutorActions, UpdatesChangeTheNextStep) {
  const Program program = lowered(two_rank_schedule(), {.optimizer = true});
  EXPECT_TRUE(contains(program, OpKind::optimizer));
  RunOptions options = unverified();
  options.steps = 3;
  EXPECT_EQ(against_reference(program, options), "equal");
  const RunResult three = run(program, LinearModel(), options);
  options.steps = 1;
  EXPECT_NE(run(program, LinearModel(), options).gradients, three.gradients);
}

TEST(ExecutorActions, TheNormScalesEveryUpdate) {
  const Program program = lowered(two_rank_schedule(), {.optimizer = true, .clip = true});
  EXPECT_TRUE(contains(program, OpKind::collective));
  RunOptions options = unverified();
  options.steps = 2;
  EXPECT_EQ(against_reference(program, options), "equal");
  const RunResult clipped = run(program, LinearModel(), options);
  options.clip_norm = 1e9;
  EXPECT_EQ(against_reference(program, options), "equal");
  EXPECT_NE(run(program, LinearModel(), options).gradients, clipped.gradients);
}

/// Two chains over the same ranks in opposite directions; stage s and stage 3 - s share a block.
Schedule bidirectional() {
  PipelineSpec spec;
  spec.ranks = 2;
  spec.stages = 4;
  spec.microbatches = 2;
  spec.placement = {RankId(0), RankId(1), RankId(1), RankId(0)};
  spec.edges = {{StageId(0), StageId(1)}, {StageId(2), StageId(3)}};
  spec.routes = {{StageId(0), StageId(1)}, {StageId(2), StageId(3)}};
  spec.route = {RouteId(0), RouteId(1)};
  spec.blocks = {{{StageId(0), StageId(2)}}, {{StageId(1), StageId(3)}}};
  return schedule_of(Pipeline::make(spec).value(), {"0F0 3F1 3B1 0B0", "2F1 1F0 1B0 2B1"});
}

TEST(ExecutorActions, SharedBlocksAreSummedOverTheirRanks) {
  const Program program = lowered(bidirectional(), {.reduce_grad = true});
  EXPECT_TRUE(contains(program, OpKind::reduce_grad));
  EXPECT_EQ(against_reference(program, unverified()), "equal");
  const RunResult result = run(program, LinearModel(), unverified());
  ASSERT_EQ(result.gradients.size(), 4U);
  for (std::size_t b = 0; b < 2; ++b) {
    EXPECT_TRUE(result.gradients[2 * b].reduced);
    EXPECT_EQ(result.gradients[2 * b].values, result.gradients[2 * b + 1].values) << "block " << b;
  }
}

TEST(ExecutorActions, SharesThatNobodyReducesAddUpToTheReference) {
  const Program program = lowered(bidirectional(), {});
  EXPECT_EQ(against_reference(program, unverified()), "equal");
  const RunResult result = run(program, LinearModel(), unverified());
  ASSERT_EQ(result.gradients.size(), 4U);
  EXPECT_FALSE(result.gradients[0].reduced);
  EXPECT_NE(result.gradients[0].values, result.gradients[1].values);
}

TEST(ExecutorActions, SharedBlocksAreUpdatedAlikeOnAllRanks) {
  RunOptions options = unverified();
  options.steps = 3;
  EXPECT_EQ(against_reference(
                lowered(bidirectional(), {.reduce_grad = true, .optimizer = true, .clip = true}), options),
            "equal");
}

TEST(ExecutorActions, EveryOptionOfLoweringKeepsTheGradients) {
  const Schedule schedule = two_rank_schedule();
  for (const CommunicatorPolicy policy : {CommunicatorPolicy::per_rank, CommunicatorPolicy::per_pair,
                                          CommunicatorPolicy::per_edge, CommunicatorPolicy::per_stage_edge}) {
    LoweringOptions options{.communicators = policy,
                            .offload = {.percent = 100, .stages = {}},
                            .load = true,
                            .unshard = true,
                            .reduce_grad = true,
                            .optimizer = true,
                            .clip = true};
    EXPECT_EQ(against_reference(lowered(schedule, options), unverified()), "equal") << policy_name(policy);
    options.offload = {};
    options.recompute = Recompute::full;
    EXPECT_EQ(against_reference(lowered(schedule, options), unverified()), "equal") << policy_name(policy);
  }
}

TEST(ExecutorActions, AModelRefusesAPipelineThatItCannotRun) {
  PipelineSpec spec = chain_spec(1, 1, 1);
  spec.slices = 2;
  const Program program =
      HandProgram{.pipeline = spec, .rows = {{"0F0.0", "0F0.1", "0B0.1", "0B0.0"}}}.build();
  const auto result = execute(program, LinearModel(), unverified());
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, ErrorCode::bad_argument);
}

}  // namespace
}  // namespace ppsim::test
