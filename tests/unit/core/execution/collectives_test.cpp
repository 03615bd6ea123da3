// Collectives that stand between the passes of a microbatch: a head sharded over two ranks.

#include <gtest/gtest.h>

#include "ppsim/core/execution/execution_graph.hpp"
#include "ppsim/core/execution/well_formed.hpp"
#include "ppsim/core/io/json.hpp"
#include "ppsim/core/ir/hash.hpp"
#include "ppsim/core/ir/schedule.hpp"
#include "ppsim/core/lowering/lowering.hpp"
#include "support/hand_program.hpp"
#include "support/lowered.hpp"

namespace ppsim::test {
namespace {

using enum TensorKind;

/// Stage 0 on rank 0 feeds the shards 1 and 2 on ranks 0 and 1. Collective 0 stands between F and B of the
/// shards, collective 1 sums their gradients for stage 0.
PipelineSpec sharded_head() {
  const std::vector<RankId> both = {RankId(0), RankId(1)};
  const std::vector<StageId> shards = {StageId(1), StageId(2)};
  PipelineSpec spec{.ranks = 2, .stages = 3, .microbatches = 1};
  spec.placement = {RankId(0), RankId(0), RankId(1)};
  spec.edges = {{StageId(0), StageId(1)}, {StageId(0), StageId(2)}};
  spec.collectives = {
      {.name = "softmax",
       .members = both,
       .after = {OpKind::forward, shards},
       .before = {OpKind::backward, shards}},
      {.name = "sum", .members = both, .after = {OpKind::backward, shards}, .gradient_of = StageId(0)}};
  return spec;
}

/// Embedding shards 0 and 1 on both ranks, their sum is the input of stage 2 on rank 1.
PipelineSpec sharded_embedding() {
  PipelineSpec spec{.ranks = 2, .stages = 3, .microbatches = 1};
  spec.placement = {RankId(0), RankId(1), RankId(1)};
  spec.edges = {{StageId(0), StageId(2)}, {StageId(1), StageId(2)}};
  spec.collectives = {{.name = "embedding",
                       .members = {RankId(0), RankId(1)},
                       .after = {OpKind::forward, {StageId(0), StageId(1)}},
                       .input_of = StageId(2)}};
  return spec;
}

HandProgram head(std::vector<std::string> first, std::vector<std::string> second) {
  return {.pipeline = sharded_head(),
          .communicators = communicators({{0, 1}, {0, 1}, {0, 1}}),
          .rows = {std::move(first), std::move(second)}};
}

HandProgram good_head() {
  return head({"0F0", "0SEND_F0>2@0", "1F0", "0COLL0@1", "1B0", "1COLL0@2", "0B0"},
              {"2RECV_F0@0", "2F0", "0COLL0@1", "2B0", "1COLL0@2"});
}

std::string broken_rule(const PipelineSpec& spec) {
  const auto pipeline = Pipeline::make(spec);
  return pipeline ? "" : pipeline.error().message;
}

std::string violation_text(const Program& program) {
  std::string text;
  for (const Violation& violation : well_formed_violations(program)) text += violation.message + "\n";
  return text;
}

TEST(Collectives, StandBetweenPassesOfTheirMicrobatch) {
  const Program program = good_head().build();
  EXPECT_EQ(violation_text(program), "");
  const ExecutionGraph graph = build_execution_graph(program, rendezvous());
  EXPECT_TRUE(run_order(graph).complete);
  const auto waits = [&](int rank, int later, int earlier) {
    const auto on = graph.predecessors_of(at(program, rank, {later})[0]);
    return std::find(on.begin(), on.end(), at(program, rank, {earlier})[0]) != on.end();
  };
  EXPECT_TRUE(waits(0, 3, 2)) << "the softmax waits for F of the rank's own shard";
  EXPECT_TRUE(waits(1, 3, 2)) << "B of a shard waits for the softmax";
  EXPECT_TRUE(waits(0, 6, 5)) << "B of the stage waits for the sum in place of gradients from the shards";
}

TEST(Collectives, MustOccurWherePassesWaitForThem) {
  EXPECT_NE(violation_text(head({"0F0", "0SEND_F0>2@0", "1F0", "1B0", "1COLL0@2", "0B0"},
                                {"2RECV_F0@0", "2F0", "2B0", "1COLL0@2"})
                               .build())
                .find("1B0 needs 0COLL0, which is not on the rank"),
            std::string::npos);
  EXPECT_NE(violation_text(head({"0F0", "0SEND_F0>2@0", "1F0", "0COLL0@1", "1B0", "0B0"},
                                {"2RECV_F0@0", "2F0", "0COLL0@1", "2B0"})
                               .build())
                .find("0B0 needs 1COLL0, which is not on the rank"),
            std::string::npos);
}

TEST(Collectives, OfPassesHaveAMicrobatch) {
  EXPECT_NE(violation_text(head({"0F0", "0SEND_F0>2@0", "1F0", "0COLL@1", "1B0", "1COLL0@2", "0B0"},
                                {"2RECV_F0@0", "2F0", "0COLL@1", "2B0", "1COLL0@2"})
                               .build())
                .find("0COLL does not belong on this rank"),
            std::string::npos);
}

TEST(Collectives, TakeThePlaceOfTransfersOfWhatTheySum) {
  const Program program =
      head({"0F0", "0SEND_F0>2@0", "1F0", "0COLL0@1", "1B0", "1COLL0@2", "0B0", "0RECV_B0<2@0"},
           {"2RECV_F0@0", "2F0", "0COLL0@1", "2B0", "1COLL0@2", "2SEND_B0@0"})
          .build();
  EXPECT_NE(violation_text(program).find("0RECV_B0<2 does not belong on this rank"), std::string::npos);
  EXPECT_NE(violation_text(program).find("2SEND_B0>0 does not belong on this rank"), std::string::npos);
}

TEST(Collectives, OwnTheTensorsThatTheySum) {
  const Program program = good_head().build();
  EXPECT_EQ(lifetimes(program, 0, outgoing_gradient, 1), "4 -> 4,5");
  EXPECT_EQ(lifetimes(program, 1, outgoing_gradient, 2), "3 -> 3,4");
  EXPECT_EQ(lifetimes(program, 0, incoming_gradient, 0), "5 -> 5,6") << "one sum, whatever the shards";
  EXPECT_EQ(lifetimes(program, 0, boundary_output, 0), "0 -> 0,1,2,4");
}

TEST(Collectives, MaySumWhatForwardsMake) {
  HandProgram hand = good_head();
  hand.pipeline.collectives[CollectiveId(0)].gradient_of = StageId(0);
  hand.pipeline.collectives[CollectiveId(1)] = {"unused", {RankId(0), RankId(1)}};
  hand.rows = {{"0F0", "0SEND_F0>2@0", "1F0", "0COLL0@1", "0B0", "1B0"},
               {"2RECV_F0@0", "2F0", "0COLL0@1", "2B0"}};
  const Program program = hand.build();
  EXPECT_EQ(violation_text(program), "");
  EXPECT_EQ(lifetimes(program, 1, outgoing_gradient, 2), "1 -> 1,2");
  EXPECT_EQ(lifetimes(program, 0, incoming_gradient, 0), "3 -> 3,4");
}

TEST(Collectives, SumInputs) {
  const Program program = HandProgram{
      .pipeline = sharded_embedding(),
      .communicators = communicators({{0, 1}, {0, 1}}),
      .rows = {{"0F0", "0COLL0@1", "0RECV_B0@0", "0B0"},
               {"1F0", "0COLL0@1", "2F0", "2B0", "2SEND_B0>0@0",
                "1B0"}}}.build();
  EXPECT_EQ(violation_text(program), "");
  EXPECT_EQ(lifetimes(program, 0, boundary_output, 0), "0 -> 0,1");
  EXPECT_EQ(lifetimes(program, 1, boundary_output, 1), "0 -> 0,1");
  EXPECT_EQ(lifetimes(program, 1, boundary_input, 2), "1 -> 1,2,3");
}

TEST(Collectives, SumEverySlice) {
  HandProgram hand{
      .pipeline = sharded_embedding(),
      .communicators = communicators({{0, 1}, {0, 1}}),
      .rows = {{"0F0.0", "0F0.1", "0COLL0@1"}, {"1F0.0", "1F0.1", "0COLL0@1", "2F0.0", "2F0.1"}}};
  hand.pipeline.slices = 2;
  const Program program = hand.build();
  EXPECT_EQ(violation_text(program), "");
  EXPECT_EQ(lifetimes(program, 0, boundary_output, 0), "0 -> 0,2; 1 -> 1,2");
  EXPECT_EQ(lifetimes(program, 1, boundary_input, 2), "2 -> 2,3; 2 -> 2,4");
}

TEST(Collectives, LoweringLeavesSummedEdgesToThem) {
  ScheduleBuilder builder("by hand", Pipeline::make(sharded_head()).value());
  const auto add = [&](OpKind kind, int stage) { builder.add(kind, StageId(stage), MicrobatchId(0)); };
  const auto meet = [&](int id) {
    for (int r = 0; r < 2; ++r) builder.add(RankId(r), make_action(OpKind::collective, id, 0));
  };
  for (const int stage : {0, 1, 2}) add(OpKind::forward, stage);
  meet(0);
  for (const int stage : {1, 2}) add(OpKind::backward, stage);
  meet(1);
  add(OpKind::backward, 0);
  const Program program = lowered(builder.build().value());
  EXPECT_EQ(first_violation(program), "");
  EXPECT_TRUE(finishes(program));
  for (const Action& action : program.all_actions()) {
    EXPECT_NE(action.kind, OpKind::send_backward);
    EXPECT_NE(action.kind, OpKind::recv_backward);
  }
}

TEST(Collectives, HoldBackThePassesBehindThemInALowering) {
  PipelineSpec spec = sharded_head();
  spec.microbatches = 2;
  ScheduleBuilder builder("by hand", Pipeline::make(spec).value());
  const auto add = [&](OpKind kind, int stage, int microbatch) {
    builder.add(kind, StageId(stage), MicrobatchId(microbatch));
  };
  const auto meet = [&](int id, int microbatch) {
    for (int r = 0; r < 2; ++r) builder.add(RankId(r), make_action(OpKind::collective, id, microbatch));
  };
  // Rank 0 comes to the softmax of microbatch 0 before rank 1 has its part of it.
  add(OpKind::forward, 0, 0);
  add(OpKind::forward, 1, 0);
  add(OpKind::forward, 0, 1);
  add(OpKind::forward, 2, 1);
  add(OpKind::forward, 2, 0);
  for (const int microbatch : {0, 1}) {
    meet(0, microbatch);
    for (const int stage : {1, 2}) add(OpKind::backward, stage, microbatch);
    meet(1, microbatch);
    add(OpKind::backward, 0, microbatch);
    if (microbatch == 0) add(OpKind::forward, 1, 1);
  }
  const Program program = lowered(builder.build().value());
  EXPECT_EQ(first_violation(program), "");
  EXPECT_TRUE(finishes(program));
}

TEST(Collectives, StandOnlyBetweenPassesOfMembers) {
  PipelineSpec spec = sharded_head();
  spec.collectives[CollectiveId(0)].members = {RankId(0)};
  EXPECT_EQ(broken_rule(spec),
            "collective softmax names stage 2, whose rank is no member\n"
            "collective softmax names stage 2, whose rank is no member");
  spec = sharded_head();
  spec.collectives[CollectiveId(1)].after.stages = {StageId(1)};
  EXPECT_EQ(broken_rule(spec), "collective sum sums what comes from stage 2 and does not wait for it");
  spec = sharded_head();
  spec.collectives[CollectiveId(0)].gradient_of = StageId(0);
  EXPECT_EQ(broken_rule(spec), "collective sum sums the gradient of stage 0, and so does another");
  spec = sharded_head();
  spec.collectives[CollectiveId(0)].before = {OpKind::recompute, {StageId(7)}};
  EXPECT_EQ(broken_rule(spec),
            "collective softmax stands between passes of kind R, expected F or B\n"
            "collective softmax names stage 7, expected [0, 3)\n"
            "collective softmax names stage 7, expected [0, 3)");
}

TEST(Collectives, KeepWhatTheyStandBetweenInFiles) {
  for (PipelineSpec spec : {sharded_head(), sharded_embedding()}) {
    spec.microbatches = 2;
    spec.update = {0, 1};
    spec.lag = {1, 0, 0};
    ProgramDraft draft;
    draft.rows = IdVector<RankId, std::vector<InstructionDraft>>(2);
    const Program program = ProgramBuilder::build(Pipeline::make(spec).value(), draft).value();
    const auto read = ir_from_json(to_json(program), "f.json");
    ASSERT_TRUE(read) << to_string(read.error());
    EXPECT_EQ(std::get<Program>(*read).pipeline().spec(), program.pipeline().spec());
  }
}

TEST(Collectives, AreHashedWithWhatTheyStandBetween) {
  const auto hash_of = [](const PipelineSpec& spec) {
    ProgramDraft draft;
    draft.rows = IdVector<RankId, std::vector<InstructionDraft>>(2);
    return program_hash(ProgramBuilder::build(Pipeline::make(spec).value(), draft).value());
  };
  PipelineSpec lagging = sharded_head();
  lagging.lag = {1, 0, 0};
  EXPECT_NE(hash_of(sharded_head()), hash_of(lagging));
  PipelineSpec later = sharded_head();
  later.collectives[CollectiveId(0)].before.stages = {StageId(1)};
  EXPECT_NE(hash_of(sharded_head()), hash_of(later));
  PipelineSpec unsummed = sharded_head();
  unsummed.collectives[CollectiveId(1)].gradient_of = StageId();
  EXPECT_NE(hash_of(sharded_head()), hash_of(unsummed));
}

}  // namespace
}  // namespace ppsim::test
