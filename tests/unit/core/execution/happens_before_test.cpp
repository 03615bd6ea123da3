#include "ppsim/core/execution/happens_before.hpp"

#include <gtest/gtest.h>

#include "ppsim/core/ir/check.hpp"
#include "support/hand_program.hpp"
#include "support/programs.hpp"

namespace ppsim::test {
namespace {

/// Clocks of one rank, asked by positions in its list.
class Asked {
 public:
  Asked(const Program& program, int rank, const TransportCapabilities& capabilities = rendezvous())
      : program_(program), rank_(rank), clocks_(make(program, rank, capabilities)) {}

  [[nodiscard]] bool complete_before_start(int first, int second) const {
    return clocks_.completes_before_start(id(first), id(second));
  }
  [[nodiscard]] bool complete_before_completion(int first, int second) const {
    return clocks_.completes_before_completion(id(first), id(second));
  }
  [[nodiscard]] const HappensBefore& clocks() const { return clocks_; }
  [[nodiscard]] InstructionId id(int position) const { return at(program_, rank_, {position}).front(); }

 private:
  static HappensBefore make(const Program& program, int rank, const TransportCapabilities& capabilities) {
    const ExecutionGraph graph = build_execution_graph(program, capabilities);
    return HappensBefore::of_rank(program, graph, ClockPlan(graph, run_order(graph)), RankId(rank));
  }

  const Program& program_;
  int rank_;
  HappensBefore clocks_;
};

HandProgram two(int microbatches, std::vector<std::string> first, std::vector<std::string> second) {
  return {.pipeline = chain_spec(2, 2, microbatches),
          .communicators = communicators({{0, 1}, {0, 1}}),
          .rows = {std::move(first), std::move(second)}};
}

TEST(HappensBefore, AQueueIsATrack) {
  const Program program =
      HandProgram{.pipeline = chain_spec(1, 1, 2), .rows = {{"0LOAD0", "0F0", "0LOAD1", "0F1"}}}.build();
  const Asked asked(program, 0);
  EXPECT_EQ(asked.clocks().tracks(), 2);
  EXPECT_EQ(asked.clocks().track_of(asked.id(1)), asked.clocks().track_of(asked.id(3)));
  EXPECT_EQ(asked.clocks().index_in_track(asked.id(3)), 1);
  EXPECT_TRUE(asked.complete_before_start(0, 1));
  EXPECT_TRUE(asked.complete_before_start(0, 3));
  EXPECT_FALSE(asked.complete_before_start(1, 2));
  EXPECT_FALSE(asked.complete_before_start(1, 1));
  EXPECT_TRUE(asked.complete_before_completion(1, 1));
  const auto counts = asked.clocks().complete_before_start(asked.id(3));
  EXPECT_EQ(std::vector<std::int32_t>(counts.begin(), counts.end()), (std::vector<std::int32_t>{1, 2}));
}

TEST(HappensBefore, AGradientThatIsBackSaysThatTheOutputIsOut) {
  const Program program = two_rank_step();
  const Asked asked(program, 0);
  EXPECT_FALSE(asked.complete_before_start(1, 2));
  EXPECT_TRUE(asked.complete_before_completion(1, 2));
  EXPECT_TRUE(asked.complete_before_start(1, 3));
}

TEST(HappensBefore, AReceiptFreesACreditAndWhatWaitsForIt) {
  // On rank 1: the message on communicator 1 leaves after the second on communicator 0, which one credit lets
  // out only when the first is received.
  const Program program = two(3, {"0F0", "0F1", "0F2", "0SEND_F0@0", "0SEND_F1@0", "0SEND_F2@1 after 4"},
                              {"1RECV_F0@0", "1RECV_F1@0", "1RECV_F2@1"})
                              .build();
  EXPECT_TRUE(Asked(program, 1, {.credits = 1}).complete_before_completion(0, 2));
  EXPECT_FALSE(Asked(program, 1, {.credits = 2}).complete_before_completion(0, 2));
  EXPECT_FALSE(Asked(program, 1, {.credits = 1}).complete_before_completion(1, 2));
  EXPECT_TRUE(Asked(program, 1).complete_before_completion(1, 2));
}

TEST(HappensBefore, AGroupIsCompleteWhenAllItsMessagesAre) {
  const Program program =
      two(1, {"0F0", "{0SEND_F0@0 0RECV_B0@1}", "0B0"}, {"1RECV_F0@0", "1F0", "1B0", "1SEND_B0@1"}).build();
  const Asked first(program, 0);
  EXPECT_TRUE(first.complete_before_start(1, 2));
  EXPECT_FALSE(first.complete_before_completion(1, 0));
  const Asked second(program, 1);
  EXPECT_TRUE(second.complete_before_start(0, 1));
  EXPECT_FALSE(second.complete_before_start(3, 2));
}

TEST(HappensBefore, OneMessageOfAGroupIsNotTheGroup) {
  // The first message is known to be there when its reply is; the group still waits for the other one.
  const Program program = two(2, {"0F0", "0F1", "{0SEND_F0@0 0SEND_F1@1}", "0RECV_B0@1", "0B0"},
                              {"1RECV_F0@0", "1F0", "1B0", "1RECV_F1@1", "1SEND_B0@1"})
                              .build();
  EXPECT_TRUE(Asked(program, 0).complete_before_start(2, 4));
  HandProgram apart = two(2, {"0F0", "0F1", "{0SEND_F0@0 0SEND_F1@1}", "0RECV_B0@2", "0B0"},
                          {"1RECV_F0@0", "1F0", "1B0", "1RECV_F1@1", "1SEND_B0@2"});
  apart.communicators = communicators({{0, 1}, {0, 1}, {0, 1}});
  EXPECT_FALSE(Asked(apart.build(), 0).complete_before_start(2, 4));
}

/// Rank 0 is over the collective when it sends; rank 1 may still be in it when that message has come.
TEST(HappensBefore, MembersOfACollectiveEndOneByOne) {
  HandProgram hand{
      .pipeline = chain_spec(2, 2, 1),
      .communicators = communicators({{0, 1}, {0, 1}}),
      .rows = {{"0F0", "0COLL@0 after 0", "0SEND_F0@1 after 1"}, {"0COLL@0", "1RECV_F0@1", "1F0"}}};
  hand.pipeline.collectives = {Collective{"barrier", {RankId(0), RankId(1)}}};
  const Program program = hand.build();
  EXPECT_FALSE(Asked(program, 1).complete_before_completion(0, 1));
  EXPECT_FALSE(Asked(program, 1).complete_before_start(0, 2));
  EXPECT_TRUE(Asked(program, 0).complete_before_start(1, 2));
}

TEST(HappensBefore, ABlockingInstructionOrdersTheList) {
  const Program blocking =
      HandProgram{.pipeline = chain_spec(1, 1, 2), .rows = {{"0F0 !", "0LOAD1", "0F1"}}}.build();
  EXPECT_TRUE(Asked(blocking, 0).complete_before_start(0, 1));
  const Program free =
      HandProgram{.pipeline = chain_spec(1, 1, 2), .rows = {{"0F0", "0LOAD1", "0F1"}}}.build();
  EXPECT_FALSE(Asked(free, 0).complete_before_start(0, 1));
}

TEST(HappensBefore, NeedsAProgramThatFinishes) {
  const Program program = deferred_receives(false);
  const ExecutionGraph graph = build_execution_graph(program, rendezvous());
  EXPECT_THROW((void)HappensBefore::of_rank(program, graph, ClockPlan(graph, run_order(graph)), RankId(0)),
               CheckFailure);
}

}  // namespace
}  // namespace ppsim::test
