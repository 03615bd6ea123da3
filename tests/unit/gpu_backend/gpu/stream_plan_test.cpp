#include "executor/gpu/streams/stream_plan.hpp"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <sstream>

#include "ppsim/core/io/text.hpp"
#include "ppsim/core/lowering/lowering.hpp"
#include "ppsim/schedules/registry.hpp"
#include "support/hand_program.hpp"

namespace ppsim::test {

using namespace gpu_backend;
namespace {

/// "1F0 <- 1RECV_F0; ...": what each instruction waits for on other streams, in the order of issue.
std::string waits_of(const Program& program, int rank) {
  std::ostringstream text;
  const StreamPlan plan = plan_streams(program, build_execution_graph(program, rendezvous()), RankId(rank));
  for (const StreamInstruction& instruction : plan.instructions) {
    text << actions_text(program, instruction.id);
    for (const InstructionId id : instruction.waits) text << " <- " << actions_text(program, id);
    if (instruction.host_wait.valid()) text << " host " << actions_text(program, instruction.host_wait);
    text << "; ";
  }
  return text.str() + (plan.complete ? "" : "and the rest never");
}

Program program_of_first(std::vector<std::string> row) {
  HandProgram hand{
      .pipeline = chain_spec(2, 2, 2), .communicators = communicators({{0, 1}}), .rows = {{}, {}}};
  hand.rows[0] = std::move(row);
  return hand.build();
}

TEST(StreamPlan, WaitsForOtherStreamsAlone) {
  EXPECT_EQ(waits_of(program_of_first({"0F0", "0F1", "0SEND_F0@0", "0SEND_F1@0"}), 0),
            "0F0; 0F1; 0SEND_F0 <- 0F0; 0SEND_F1 <- 0F1; ");
}

TEST(StreamPlan, LeavesOutWhatAnotherWaitImplies) {
  // 0F1 is behind 0F0 on the compute stream: having waited for it, a SEND of 0F0 has nothing left to wait
  // for.
  EXPECT_EQ(waits_of(program_of_first({"0F0", "0F1", "0SEND_F1@0", "0SEND_F0@0"}), 0),
            "0F0; 0F1; 0SEND_F1 <- 0F1; 0SEND_F0; ");
}

TEST(StreamPlan, WhatCanNeverStartIsNotIssuedNorWhatIsBehindIt) {
  EXPECT_EQ(waits_of(program_of_first({"0F0", "0B0", "0F1"}), 0), "0F0; and the rest never");
}

TEST(StreamPlan, EveryEdgeOfTheGraphIsKept) {
  for (const char* name : {"1f1b", "zb-h1", "interleaved-1f1b", "dualpipe-v"}) {
    const auto schedule = generate(name, {.ranks = 4, .microbatches = 8, .chunks = 2});
    if (!schedule) continue;
    const Program program = lower(*schedule, {}).value();
    const ExecutionGraph graph = build_execution_graph(program, rendezvous());
    for (int r = 0; r < program.pipeline().ranks(); ++r) {
      const StreamPlan plan = plan_streams(program, graph, RankId(r));
      ASSERT_TRUE(plan.complete);
      // The instructions complete before each, by streams and waits alone.
      std::map<InstructionId, std::set<InstructionId>> before;
      std::map<int, InstructionId> tail;
      for (const StreamInstruction& instruction : plan.instructions) {
        std::vector<InstructionId> direct = instruction.waits;
        if (tail.contains(instruction.queue)) direct.push_back(tail[instruction.queue]);
        for (const InstructionId id : direct) {
          before[instruction.id].insert(id);
          before[instruction.id].insert(before[id].begin(), before[id].end());
        }
        tail[instruction.queue] = instruction.id;
        for (const InstructionId id : graph.predecessors_of(instruction.id)) {
          EXPECT_TRUE(before[instruction.id].contains(id))
              << name << ": " << actions_text(program, instruction.id);
        }
      }
    }
  }
}

}  // namespace
}  // namespace ppsim::test
