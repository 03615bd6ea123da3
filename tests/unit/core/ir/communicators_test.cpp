#include "ppsim/core/lowering/communicators.hpp"

#include <gtest/gtest.h>

#include <sstream>

#include "support/hand_program.hpp"

namespace ppsim {
namespace {

/// Two chunks on each of two ranks: 0 -> 1 crosses to rank 1, 1 -> 2 back, 2 -> 3 over again.
Pipeline pipeline() {
  PipelineSpec spec = test::chain_spec(2, 4, 2);
  spec.blocks = {ParameterBlock{{StageId(0), StageId(3)}}, ParameterBlock{{StageId(1)}},
                 ParameterBlock{{StageId(2)}}};
  spec.collectives = {{"norm", {RankId(0), RankId(1)}}};
  return Pipeline::make(std::move(spec)).value();
}

InstructionDraft single(Action action) { return {.actions = {action}, .communicators = {CommunicatorId()}}; }

ProgramDraft draft() {
  ProgramDraft draft;
  draft.rows = {
      {single(make_action(OpKind::forward, 0, 0)), single(make_transfer(OpKind::send_forward, 0, 0, 1)),
       single(make_transfer(OpKind::recv_forward, 2, 0, 1)),
       single(make_transfer(OpKind::send_activation, 0, 0, 1)),
       single(Action{0, 0, -1, 0, OpKind::reduce_grad}), single(Action{0, -1, -1, 0, OpKind::unshard})},
      {single(make_transfer(OpKind::recv_forward, 1, 0, 0)),
       single(make_transfer(OpKind::recv_activation, 0, 0, 0)),
       single(make_transfer(OpKind::send_forward, 1, 0, 2)),
       single(make_transfer(OpKind::recv_forward, 3, 0, 2)), single(Action{0, -1, -1, 0, OpKind::collective}),
       single(Action{1, 0, -1, 0, OpKind::reduce_grad})}};
  return draft;
}

/// "name{members}" with "/queue" where one is given; then each rank's communicator numbers.
std::string assigned(ProgramDraft draft, CommunicatorPolicy policy) {
  assign_communicators(pipeline(), draft, policy);
  std::ostringstream out;
  for (const Communicator& communicator : draft.communicators) {
    out << communicator.name << "{";
    for (const RankId rank : communicator.members) out << rank;
    out << "}";
    if (communicator.queue >= 0) out << "/" << communicator.queue;
    out << " ";
  }
  for (const auto& row : draft.rows) {
    out << "|";
    for (const InstructionDraft& item : row) out << " " << item.communicators.at(0);
  }
  EXPECT_TRUE(ProgramBuilder::build(pipeline(), draft));
  return out.str();
}

TEST(Communicators, PerRankSharesOneQueue) {
  EXPECT_EQ(assigned(draft(), CommunicatorPolicy::per_rank),
            "world{01}/0 norm{01}/0 reduce b0{01}/0 reduce b1{1}/0 shard r0{0}/0 "
            "| -1 0 0 0 2 4| 0 0 0 0 1 3");
}

TEST(Communicators, PerPair) {
  EXPECT_EQ(assigned(draft(), CommunicatorPolicy::per_pair),
            "0-1{01} norm{01} reduce b0{01} reduce b1{1} shard r0{0} "
            "| -1 0 0 0 2 4| 0 0 0 0 1 3");
}

TEST(Communicators, PerEdge) {
  EXPECT_EQ(assigned(draft(), CommunicatorPolicy::per_edge),
            "0>1{01} 1>0{01} norm{01} reduce b0{01} reduce b1{1} shard r0{0} "
            "| -1 0 1 0 3 5| 0 0 1 0 2 4");
}

TEST(Communicators, PerStageEdge) {
  EXPECT_EQ(assigned(draft(), CommunicatorPolicy::per_stage_edge),
            "s0>s1{01} s1>s2{01} s2>s3{01} s0 0>1{01} norm{01} reduce b0{01} reduce b1{1} shard r0{0} "
            "| -1 0 1 3 5 7| 0 3 1 2 4 6");
}

TEST(Communicators, ReplacesWhatThereWas) {
  ProgramDraft twice = draft();
  assign_communicators(pipeline(), twice, CommunicatorPolicy::per_stage_edge);
  EXPECT_EQ(assigned(twice, CommunicatorPolicy::per_edge), assigned(draft(), CommunicatorPolicy::per_edge));
}

TEST(Communicators, AMisplacedActionStillMakesAProgram) {
  ProgramDraft wrong = draft();
  wrong.rows[RankId(1)].push_back(single(make_transfer(OpKind::send_forward, 0, 1, 1)));
  for (const auto policy : {CommunicatorPolicy::per_rank, CommunicatorPolicy::per_pair,
                            CommunicatorPolicy::per_edge, CommunicatorPolicy::per_stage_edge}) {
    assign_communicators(pipeline(), wrong, policy);
    const auto program = ProgramBuilder::build(pipeline(), wrong);
    EXPECT_TRUE(program) << to_string(program.error());
  }
}

TEST(ProgramBuilder, TheNormCountsUpdates) {
  ProgramDraft wrong = draft();
  wrong.rows[RankId(0)] = {single(Action{0, 1, -1, 0, OpKind::collective})};
  assign_communicators(pipeline(), wrong, CommunicatorPolicy::per_pair);
  const auto program = ProgramBuilder::build(pipeline(), wrong);
  ASSERT_FALSE(program);
  EXPECT_EQ(program.error().message, "rank 0, instruction 0: 0COLL1 names update 1, expected [0, 1)");
}

}  // namespace
}  // namespace ppsim
