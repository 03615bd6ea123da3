#include "ppsim/core/execution/execution_graph.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "support/hand_program.hpp"
#include "support/programs.hpp"

namespace ppsim {
namespace {

using test::group;
using test::one;
using enum OpKind;

const std::vector<RankId> kBoth = {RankId(0), RankId(1)};

ExecutionGraph graph_of(const Program& program, TransportCapabilities capabilities = rendezvous()) {
  return build_execution_graph(program, capabilities);
}

bool runs(const Program& program, TransportCapabilities capabilities = rendezvous()) {
  return run_order(graph_of(program, capabilities)).complete;
}

bool waits_for(const ExecutionGraph& graph, int id, int on, WaitReason reason) {
  const auto predecessors = graph.predecessors_of(InstructionId(id));
  const auto at = std::find(predecessors.begin(), predecessors.end(), InstructionId(on));
  return at != predecessors.end() &&
         graph.reasons_of(InstructionId(id))[static_cast<std::size_t>(at - predecessors.begin())] == reason;
}

/// One rank, one stage, no communication.
Program local(std::vector<InstructionDraft> row, int microbatches = 1) {
  ProgramDraft draft;
  draft.rows.push_back(std::move(row));
  return test::program(test::chain(1, 1, microbatches), std::move(draft));
}

TEST(ExecutionGraph, DataQueueAfterAndHostWaits) {
  const Program program = local({one(make_action(load, 0, 0), -1, {}, true), one(make_action(forward, 0, 0)),
                                 one(make_action(backward, 0, 0), -1, {0})});
  const ExecutionGraph graph = graph_of(program);
  EXPECT_TRUE(waits_for(graph, 1, 0, WaitReason::data));
  EXPECT_TRUE(waits_for(graph, 2, 1, WaitReason::data));
  EXPECT_TRUE(waits_for(graph, 2, 0, WaitReason::after));
  EXPECT_TRUE(graph.unsatisfiable.empty());
}

TEST(ExecutionGraph, BlockingIssueHoldsBackTheRestOfTheList) {
  const Program program =
      local({one(make_action(load, 0, 1), -1, {}, true), one(make_action(forward, 0, 0))}, 2);
  EXPECT_TRUE(waits_for(graph_of(program), 1, 0, WaitReason::host));
}

TEST(ExecutionGraph, MessagesMeetInChannelOrder) {
  const ExecutionGraph graph = graph_of(test::deferred_receives(true));
  ASSERT_EQ(graph.messages.size(), 4U);
  EXPECT_TRUE(std::all_of(graph.messages.begin(), graph.messages.end(),
                          [](const Message& m) { return m.complete() && m.matched; }));
  EXPECT_EQ(graph.messages[1].previous, 0);
  EXPECT_EQ(graph.messages[1].credit, -1);
  EXPECT_EQ(graph_of(test::deferred_receives(true), {.credits = 1}).messages[1].credit, 0);
}

TEST(ExecutionGraph, DeferredReceivesNeedDirectedEdges) {
  EXPECT_TRUE(runs(test::deferred_receives(true)));
  EXPECT_FALSE(runs(test::deferred_receives(false)));
  EXPECT_TRUE(runs(test::deferred_receives(false), {.credits = 1}));
}

TEST(ExecutionGraph, AMissingInputNeverComes) {
  ProgramDraft draft;
  draft.rows = IdVector<RankId, std::vector<InstructionDraft>>{{one(make_action(forward, 0, 0))},
                                                               {one(make_action(forward, 1, 0))}};
  const ExecutionGraph graph = graph_of(test::program(test::chain(2, 2, 1), draft));
  ASSERT_EQ(graph.unsatisfiable.size(), 1U);
  EXPECT_EQ(graph.unsatisfiable[0].instruction, InstructionId(1));
  EXPECT_EQ(graph.unsatisfiable[0].why, "1F0 needs 1RECV_F0<0, which is not on the rank");
  EXPECT_FALSE(run_order(graph).complete);
}

TEST(ExecutionGraph, AnActionOnAWrongRankNeverStarts) {
  ProgramDraft draft;
  draft.rows = IdVector<RankId, std::vector<InstructionDraft>>{
      {one(make_action(forward, 0, 0)), one(make_action(forward, 1, 0))}, {}};
  const ExecutionGraph graph = graph_of(test::program(test::chain(2, 2, 1), draft));
  ASSERT_EQ(graph.unsatisfiable.size(), 1U);
  EXPECT_EQ(graph.unsatisfiable[0].why, "1F0 does not belong on this rank");
}

TEST(ExecutionGraph, ARankIsNotBlamedForTheOneBeforeIt) {
  const Program program = test::HandProgram{.pipeline = test::chain_spec(2, 2, 1),
                                            .communicators = test::communicators({{0, 1}, {0, 1}}),
                                            .rows = {{"0F0", "0SEND_F0@0", "0RECV_B0@1", "0B0", "1F0"},
                                                     {"1RECV_F0@0", "1F0", "1B0", "1SEND_B0@1"}}}
                              .build();
  const ExecutionGraph graph = graph_of(program);
  ASSERT_EQ(graph.unsatisfiable.size(), 1U);
  EXPECT_EQ(graph.unsatisfiable[0].instruction, test::at(program, 0, {4}).front());
  EXPECT_EQ(graph.unsatisfiable[0].why, "1F0 does not belong on this rank");
}

TEST(ExecutionGraph, WhatWaitsForItselfIsSaidOnce) {
  PipelineSpec spec = test::chain_spec(2, 3, 1);
  spec.placement = {RankId(0), RankId(1), RankId(1)};
  spec.edges = {{StageId(0), StageId(1)}, {StageId(0), StageId(2)}};
  const Program program = test::HandProgram{
      .pipeline = spec,
      .communicators = test::communicators({{0, 1}, {0, 1}}),
      .rows = {
          {"0RECV_B0<1@1", "0RECV_B0<2@1", "(0F0;0B0)OVERLAP_F_B", "0SEND_F0>1@0"},
          {"1RECV_F0<0@0", "1F0", "2F0", "1B0", "1SEND_B0>0@1", "2B0",
           "2SEND_B0>0@1"}}}.build();
  const ExecutionGraph graph = graph_of(program);
  ASSERT_EQ(graph.unsatisfiable.size(), 1U);
  EXPECT_EQ(graph.unsatisfiable[0].why, "0F0 waits for itself");
}

TEST(ExecutionGraph, ExchangesNeedAGroup) {
  // Both ranks send before they receive, on one communicator: only a group makes the two progress together.
  const auto exchange = [](bool grouped) {
    PipelineSpec spec;
    spec.ranks = 2;
    spec.stages = 4;
    spec.microbatches = 2;
    spec.placement = {RankId(0), RankId(1), RankId(1), RankId(0)};
    spec.routes = {{StageId(0), StageId(1)}, {StageId(2), StageId(3)}};
    spec.route = {RouteId(0), RouteId(1)};
    ProgramDraft draft;
    draft.communicators = {{"world", kBoth, -1}};
    const std::pair<Action, int> out0{make_transfer(send_forward, 0, 0, 1), 0},
        in0{make_transfer(recv_forward, 3, 1, 2), 0};
    const std::pair<Action, int> out1{make_transfer(send_forward, 2, 1, 3), 0},
        in1{make_transfer(recv_forward, 1, 0, 0), 0};
    draft.rows.push_back({one(make_action(forward, 0, 0))});
    draft.rows.push_back({one(make_action(forward, 2, 1))});
    for (const auto& [rank, out, in] : {std::tuple{0, out0, in0}, std::tuple{1, out1, in1}}) {
      auto& row = draft.rows[RankId(rank)];
      if (grouped) {
        row.push_back(group({out, in}));
      } else {
        row.push_back(one(out.first, 0));
        row.push_back(one(in.first, 0));
      }
    }
    return test::program(*Pipeline::make(spec), draft);
  };
  EXPECT_FALSE(runs(exchange(false)));
  EXPECT_TRUE(runs(exchange(true)));
}

TEST(ExecutionGraph, GroupMembersOfOneChannelMeetInOrder) {
  ProgramDraft draft;
  draft.communicators = {{"0>1", kBoth, -1}};
  draft.rows.push_back(
      {one(make_action(forward, 0, 0)), one(make_action(forward, 0, 1)),
       group({{make_transfer(send_forward, 0, 0, 1), 0}, {make_transfer(send_forward, 0, 1, 1), 0}})});
  draft.rows.push_back(
      {one(make_transfer(recv_forward, 1, 0, 0), 0), one(make_transfer(recv_forward, 1, 1, 0), 0)});
  const Program program = test::program(test::chain(2, 2, 2), draft);
  const ExecutionGraph graph = graph_of(program);
  EXPECT_EQ(graph.messages_of(InstructionId(2)).size(), 2U);
  EXPECT_TRUE(run_order(graph).complete);
}

TEST(ExecutionGraph, CollectivesMeetOnEveryMember) {
  PipelineSpec spec;
  spec.ranks = 2;
  spec.stages = 2;
  spec.collectives = {{"barrier", kBoth}};
  const Pipeline pipeline = *Pipeline::make(spec);
  ProgramDraft draft;
  draft.communicators = {{"barrier", kBoth, -1}};
  const Action barrier{0, 0, -1, 0, collective};
  draft.rows = IdVector<RankId, std::vector<InstructionDraft>>{{one(barrier, 0)}, {one(barrier, 0)}};
  const ExecutionGraph both = graph_of(test::program(pipeline, draft));
  ASSERT_EQ(both.matches.size(), 1U);
  EXPECT_TRUE(both.matches[0].complete && both.matches[0].matched);
  EXPECT_TRUE(run_order(both).complete);
  draft.rows[RankId(1)].clear();
  const ExecutionGraph alone = graph_of(test::program(pipeline, draft));
  EXPECT_FALSE(alone.matches[0].complete);
  EXPECT_FALSE(run_order(alone).complete);
}

TEST(ExecutionGraph, GatheredParametersBracketTheirUsers) {
  const Action unshard_0{0, -1, -1, 0, unshard};
  const Action reshard_0{0, -1, -1, 0, reshard};
  ProgramDraft draft;
  draft.communicators = {{"shard r0", {RankId(0)}, -1}};
  draft.rows.push_back(
      {one(unshard_0, 0), one(make_action(forward, 0, 0)), one(reshard_0), one(make_action(backward, 0, 0))});
  const ExecutionGraph graph = graph_of(test::program(test::chain(1, 1, 1), draft));
  EXPECT_TRUE(waits_for(graph, 1, 0, WaitReason::data));
  EXPECT_TRUE(waits_for(graph, 2, 1, WaitReason::data));
  ASSERT_EQ(graph.unsatisfiable.size(), 1U);
  EXPECT_EQ(graph.unsatisfiable[0].why, "0B0 has no UNSHARD before it");
}

TEST(RunOrder, StartsAndCompletionsRespectEveryWait) {
  const Program program = test::two_rank_step();
  const ExecutionGraph graph = graph_of(program);
  const RunOrder order = run_order(graph);
  ASSERT_TRUE(order.complete);
  std::vector<std::size_t> at(2 * program.size());
  for (std::size_t i = 0; i < order.items.size(); ++i) at[order.items[i]] = i;
  for (std::size_t i = 0; i < program.size(); ++i) {
    EXPECT_LT(at[2 * i], at[2 * i + 1]);
    for (const InstructionId p : graph.predecessors_of(InstructionId(static_cast<int>(i)))) {
      EXPECT_LT(at[2 * p.index() + 1], at[2 * i]);
    }
  }
}

}  // namespace
}  // namespace ppsim
