#include "ppsim/core/execution/wait_analysis.hpp"

#include <gtest/gtest.h>

#include "support/hand_program.hpp"

namespace ppsim::test {
namespace {

using Lines = std::vector<std::string>;

/// The waits of the instruction when those in `started` and `complete` are as their names say.
Lines waits_in(const Program& program, InstructionId id, const std::vector<std::size_t>& started,
               const std::vector<std::size_t>& complete = {}) {
  RunState state{std::vector<char>(program.size(), 0), std::vector<char>(program.size(), 0)};
  for (const std::size_t i : started) state.started[i] = 1;
  for (const std::size_t i : complete) state.started[i] = state.complete[i] = 1;
  const ExecutionGraph graph = build_execution_graph(program, {});
  Lines lines;
  for (const InstructionWait& wait : WaitAnalysis(program, graph, std::move(state)).waits_of(id))
    lines.push_back(to_string(in_words(program, graph, wait)));
  return lines;
}

TEST(WaitAnalysis, AnInstructionCanWaitForSeveralReasons) {
  HandProgram p{chain_spec(2, 2, 2), communicators({{0, 1}})};
  p.rows = {{"0F0", "0F1", "0SEND_F0@0", "0SEND_F1@0 after 1"}, {}};
  EXPECT_EQ(waits_in(p.build(), InstructionId(3), {}),
            (Lines{"rank 0: 0SEND_F1 waits for rank 0: 0SEND_F0 (is later on queue c0)",
                   "rank 0: 0SEND_F1 waits for rank 0: 0F1 (needs its result)"}));
}

TEST(WaitAnalysis, ComputationThatHasStartedIsRunning) {
  HandProgram p{chain_spec(1, 1, 1), {}};
  p.rows = {{"0F0", "0B0"}};
  EXPECT_EQ(waits_in(p.build(), InstructionId(0), {0}), Lines{"rank 0: 0F0 is running"});
  EXPECT_EQ(waits_in(p.build(), InstructionId(1), {0}),
            Lines{"rank 0: 0B0 waits for rank 0: 0F0 (needs its result)"});
  EXPECT_EQ(waits_in(p.build(), InstructionId(1), {}, {0}), Lines{}) << "it can start";
}

TEST(WaitAnalysis, ACollectiveNamesTheMembersThatHaveNotStarted) {
  PipelineSpec spec = chain_spec(3, 3, 1);
  spec.collectives = {{"norm", {RankId(0), RankId(1), RankId(2)}}};
  HandProgram p{spec, communicators({{0, 1, 2}})};
  p.rows = {{"0COLL@0"}, {"0COLL@0"}, {"0COLL@0"}};
  EXPECT_EQ(
      waits_in(p.build(), InstructionId(0), {0, 2}),
      Lines{"rank 0: 0COLL waits for rank 1: 0COLL (a collective begins when all members have started)"});
}

TEST(WaitAnalysis, AGroupWaitsForEachOfItsMessages) {
  HandProgram p{chain_spec(2, 2, 2), communicators({{0, 1}})};
  p.rows = {{"0F0", "0F1", "{0SEND_F0@0 0SEND_F1@0}"}, {"1RECV_F0@0", "1RECV_F1@0"}};
  EXPECT_EQ(waits_in(p.build(), InstructionId(2), {2, 3}, {0, 1}),
            Lines{"rank 0: {0SEND_F0 0SEND_F1} waits for rank 1: 1RECV_F1 "
                  "(a transfer begins when both ends have started)"});
}

}  // namespace
}  // namespace ppsim::test
