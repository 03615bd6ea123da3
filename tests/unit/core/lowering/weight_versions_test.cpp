// Versions of weights in the IR: who reads which, what waits for what, how many buffers a rank holds.

#include <gtest/gtest.h>

#include "ppsim/core/execution/execution_graph.hpp"
#include "ppsim/core/ir/schedule.hpp"
#include "ppsim/core/lowering/lowering.hpp"
#include "support/hand_program.hpp"

namespace ppsim::test {
namespace {

using enum TensorKind;

/// One stage on one rank, an update per microbatch, microbatch m reading version max(0, m - lag).
HandProgram asynchronous(int lag, std::vector<std::string> row) {
  HandProgram hand{.pipeline = chain_spec(1, 1, 3), .rows = {std::move(row)}};
  hand.pipeline.update = {0, 1, 2};
  hand.pipeline.version = {0, 1, 2};
  hand.pipeline.lag = {lag};
  return hand;
}

/// The instructions that can never start, one reason per line.
std::string impossible(const Program& program) {
  std::string text;
  for (const Unsatisfiable& u : build_execution_graph(program, rendezvous()).unsatisfiable) {
    text += u.why + "\n";
  }
  return text;
}

TEST(WeightVersions, AStageIsItsLagBehindDownToTheFirst) {
  PipelineSpec spec = chain_spec(2, 2, 4);
  spec.update = {0, 1, 2, 3};
  spec.version = {0, 1, 2, 3};
  spec.lag = {1, 0};
  const Pipeline pipeline = Pipeline::make(spec).value();
  EXPECT_EQ(pipeline.version(StageId(0), MicrobatchId(0)), 0);
  EXPECT_EQ(pipeline.version(StageId(0), MicrobatchId(3)), 2);
  EXPECT_EQ(pipeline.version(StageId(1), MicrobatchId(3)), 3);
  EXPECT_TRUE(pipeline.asynchronous());
  EXPECT_FALSE(Pipeline::make(chain_spec(2, 2, 4)).value().asynchronous());
  spec.lag = {5, -1};
  EXPECT_EQ(Pipeline::make(spec).error().message,
            "a lag is 5, expected [0, 4]\na lag is -1, expected [0, 4]");
}

TEST(WeightVersions, UpdatesKnowTheirMicrobatches) {
  PipelineSpec spec = chain_spec(1, 1, 5);
  spec.update = {0, 2, 0, 2, 2};
  const Pipeline pipeline = Pipeline::make(spec).value();
  EXPECT_EQ(pipeline.microbatches_of_update(0).size(), 2U);
  EXPECT_TRUE(pipeline.microbatches_of_update(1).empty());
  EXPECT_EQ(pipeline.microbatches_of_update(2).back(), MicrobatchId(4));
}

TEST(WeightVersions, AnUpdateInPlaceMakesNoBuffer) {
  const Program program =
      asynchronous(0, {"0F0", "0B0", "0OPT0", "0F1", "0B1", "0OPT1", "0F2", "0B2", "0OPT2"}).build();
  EXPECT_EQ(lifetimes(program, 0, parameters, 0), "start -> end");
  EXPECT_EQ(lifetimes(program, 0, gradients, 0), "1 -> 1,2; 4 -> 4,5; 7 -> 7,8");
}

TEST(WeightVersions, AStashedVersionLivesToItsLastReader) {
  const Program program =
      asynchronous(1, {"0F0", "0F1", "0B0", "0OPT0", "0F2", "0B1", "0OPT1", "0B2", "0OPT2"}).build();
  // Version 0 to B of microbatch 1; version 1, which OPT 0 makes, to B of microbatch 2, behind OPT 1;
  // version 2, which OPT 2 updates in place.
  EXPECT_EQ(lifetimes(program, 0, parameters, 0), "start -> 0,1,2,3,5; 3 -> 3,4,6,7; 6,8 -> end");
  const TensorTable table = tensor_table(program);
  EXPECT_EQ(tensors_of(table, 0, parameters, 0).at(1).microbatch, 1);
}

TEST(WeightVersions, WhoeverReadsAVersionNeedsTheOptThatMakesIt) {
  EXPECT_EQ(impossible(asynchronous(0, {"0F0", "0B0", "0OPT0", "0F1", "0B1", "0OPT1", "0F2", "0B2"}).build()),
            "");
  EXPECT_EQ(impossible(asynchronous(0, {"0F0", "0B0", "0OPT0", "0F1", "0B1", "0F2", "0B2"}).build()),
            "0F2 needs 0OPT1, which is not on the rank\n");
  // One rule for all: neither is an older version good enough, nor is there a version without the one before.
  EXPECT_EQ(impossible(asynchronous(0, {"0F0", "0B0", "0F1", "0B1", "0OPT1", "0F2", "0B2"}).build()),
            "0F1 needs 0OPT0, which is not on the rank\n0OPT1 needs 0OPT0, which is not on the rank\n");
}

TEST(WeightVersions, AScheduleThatReadsAVersionHasItsOpt) {
  PipelineSpec spec = chain_spec(1, 1, 2);
  spec.update = {0, 1};
  spec.version = {0, 1};
  const auto built = [&](bool optimizer) {
    ScheduleBuilder builder("by hand", Pipeline::make(spec).value());
    for (int m = 0; m < 2; ++m) {
      builder.add(OpKind::forward, StageId(0), MicrobatchId(m));
      builder.add(OpKind::backward, StageId(0), MicrobatchId(m));
      if (optimizer) builder.add(RankId(0), make_action(OpKind::optimizer, 0, m));
    }
    return builder.build();
  };
  EXPECT_TRUE(built(true).has_value());
  EXPECT_EQ(built(false).error().message, "rank 0: 0F1 needs 0OPT0, which is not on the rank");
}

/// Stage 1 sees only microbatch 1 and so has no gradient for update 0.
TEST(WeightVersions, LoweringMakesEveryVersionInTurn) {
  PipelineSpec spec = chain_spec(1, 2, 2);
  spec.routes = {{StageId(0)}, {StageId(1)}};
  spec.route = {RouteId(0), RouteId(1)};
  spec.update = {0, 1};
  ScheduleBuilder builder("by hand", Pipeline::make(spec).value());
  for (int m = 0; m < 2; ++m) {
    builder.add(OpKind::forward, StageId(m), MicrobatchId(m));
    builder.add(OpKind::backward, StageId(m), MicrobatchId(m));
  }
  const auto program = lower(builder.build().value(), {.optimizer = true});
  ASSERT_TRUE(program) << to_string(program.error());
  EXPECT_EQ(impossible(*program), "");
  int updates_of_stage_1 = 0;
  for (const Action& action : program->all_actions()) {
    updates_of_stage_1 += action.kind == OpKind::optimizer && action.subject == 1 ? 1 : 0;
  }
  EXPECT_EQ(updates_of_stage_1, 2);
}

}  // namespace
}  // namespace ppsim::test
