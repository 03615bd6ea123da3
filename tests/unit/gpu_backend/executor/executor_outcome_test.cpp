#include <gtest/gtest.h>

#include <algorithm>
#include <stdexcept>

#include "ppsim/gpu_backend/stage_model/null_model.hpp"
#include "support/hand_program.hpp"
#include "support/linear_model.hpp"
#include "support/programs.hpp"

namespace ppsim::test {
namespace {

std::vector<std::string> hang_of(const Program& program, std::optional<int> credits = std::nullopt) {
  const RunResult result = run(program, NullModel(), unverified(credits));
  EXPECT_EQ(result.outcome, RunOutcome::deadlock);
  EXPECT_TRUE(result.gradients.empty());
  EXPECT_TRUE(result.step_ns.empty());
  return hang_lines(result);
}

TEST(ExecutorOutcome, RunsTheSmallestProgram) {
  const Program program = two_rank_step();
  const RunResult result = run(program, NullModel(), unverified());
  EXPECT_EQ(result.outcome, RunOutcome::finished);
  EXPECT_TRUE(result.hang.empty());
  EXPECT_EQ(result.traces.size(), 1U);
  EXPECT_EQ(result.step_ns.size(), 1U);
}

TEST(ExecutorOutcome, RunsAProgramWithoutInstructions) {
  const Program program = HandProgram{.pipeline = chain_spec(2, 2, 1), .rows = {{}, {}}}.build();
  EXPECT_EQ(run(program, NullModel(), unverified()).outcome, RunOutcome::finished);
}

TEST(ExecutorOutcome, DeferredReceivesHangOnOneQueueForEachRank) {
  const std::vector<std::string> expected = {
      "rank 0: 0B0 waits for rank 0: 0RECV_B0 (needs its result)",
      "rank 0: 0SEND_F1 waits for rank 1: 1RECV_F1 (a transfer begins when both ends have started)",
      "rank 1: 1F1 waits for rank 1: 1RECV_F1 (needs its result)",
      "rank 1: 1SEND_B0 waits for rank 0: 0RECV_B0 (a transfer begins when both ends have started)",
  };
  EXPECT_EQ(hang_of(deferred_receives(false)), expected);
}

TEST(ExecutorOutcome, DeferredReceivesRunOnDirectedEdges) {
  EXPECT_EQ(against_reference(deferred_receives(true), unverified()), "equal");
}

TEST(ExecutorOutcome, OneCreditHidesTheHangOfRendezvous) {
  EXPECT_EQ(against_reference(deferred_receives(false), unverified(1)), "equal");
}

TEST(ExecutorOutcome, TheTraceOfAHangShowsWhatHappened) {
  const Program program = deferred_receives(false);
  const RunResult result = run(program, NullModel(), unverified());
  const auto of = [&](int rank, int position) {
    return result.trace().spans[at(program, rank, {position})[0]];
  };
  EXPECT_GE(of(0, 0).end.time, 0) << "0F0 has run";
  EXPECT_GE(of(0, 3).start.time, 0) << "0SEND_F1 has started";
  EXPECT_EQ(of(0, 3).end, (Instant{-1, 0})) << "and waits";
  EXPECT_EQ(of(0, 4), (Span{{-1, 0}, {-1, 0}})) << "0RECV_B0 has not started";
  EXPECT_EQ(memory_figures(program, NullModel(), result), "exact");
}

TEST(ExecutorOutcome, NamesASendWithoutReceive) {
  const Program program = HandProgram{
      .pipeline = chain_spec(2, 2, 1),
      .communicators = communicators({{0, 1}}),
      .rows = {{"0F0", "0SEND_F0@0"},
               {}}}.build();
  EXPECT_EQ(
      hang_of(program),
      std::vector<std::string>{"rank 0: 0SEND_F0 never completes (0SEND_F0 meets no RECV on its channel)"});
  EXPECT_EQ(run(program, NullModel(), unverified(1)).outcome, RunOutcome::finished);
}

TEST(ExecutorOutcome, NamesAReceiveWithoutSend) {
  const Program program = HandProgram{.pipeline = chain_spec(2, 2, 1),
                                      .communicators = communicators({{0, 1}}),
                                      .rows = {{"0F0"}, {"1RECV_F0@0"}}}
                              .build();
  const std::vector<std::string> expected = {
      "rank 1: 1RECV_F0 never completes (1RECV_F0 meets no SEND on its channel)"};
  EXPECT_EQ(hang_of(program), expected);
  EXPECT_EQ(hang_of(program, 3), expected);
}

TEST(ExecutorOutcome, NamesAnAbsentProducerAndWhatWaitsForIt) {
  const Program program = HandProgram{.pipeline = chain_spec(1, 1, 2), .rows = {{"0B0", "0F1"}}}.build();
  const std::vector<std::string> lines = hang_of(program);
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_NE(lines[0].find("rank 0: 0B0 never completes (0B0 needs "), std::string::npos) << lines[0];
}

TEST(ExecutorOutcome, NamesTheReceiveThatOwesACredit) {
  // Two messages are out when the third wants to go; the first of them is received behind a gradient that
  // never comes.
  const Program program = HandProgram{
      .pipeline = chain_spec(2, 2, 3),
      .communicators = communicators({{0, 1}, {0, 1}}),
      .rows = {{"0F0", "0F1", "0F2", "0SEND_F0@0", "0SEND_F1@0", "0SEND_F2@0", "0RECV_B0@1 after 5"},
               {"1SEND_B0@1", "1RECV_F0@0 after 0", "1RECV_F1@0", "1RECV_F2@0", "1F0",
                "1B0"}}}.build();
  const std::vector<std::string> lines = hang_of(program, 2);
  EXPECT_NE(std::find(lines.begin(), lines.end(),
                      "rank 0: 0SEND_F2 waits for rank 1: 1RECV_F0 (no credit is left before it receives)"),
            lines.end())
      << lines.front();
}

TEST(ExecutorOutcome, ABlockingInstructionHoldsBackTheHost) {
  HandProgram hand{
      .pipeline = chain_spec(2, 2, 1),
      .communicators = communicators({{0, 1}, {0, 1}}),
      .rows = {{"0F0", "0RECV_B0@1", "0SEND_F0@0", "0B0"}, {"1RECV_F0@0", "1F0", "1B0", "1SEND_B0@1"}}};
  EXPECT_EQ(run(hand.build(), NullModel(), unverified()).outcome, RunOutcome::finished);
  hand.rows[0][1] += " !";
  const std::vector<std::string> lines = hang_of(hand.build());
  EXPECT_NE(
      std::find(lines.begin(), lines.end(),
                "rank 0: 0SEND_F0 waits for rank 0: 0RECV_B0 (the host waits for it before it issues more)"),
      lines.end());
}

TEST(ExecutorOutcome, AGroupCompletesAsAWhole) {
  HandProgram hand{
      .pipeline = chain_spec(2, 2, 2),
      .communicators = communicators({{0, 1}}),
      .rows = {{"0F0", "0SEND_F0@0", "0F1", "{0SEND_F1@0 0RECV_B0@0}", "0B0", "0RECV_B1@0", "0B1"},
               {"1RECV_F0@0", "1F0", "1B0", "{1RECV_F1@0 1SEND_B0@0}", "1F1", "1B1", "1SEND_B1@0"}}};
  EXPECT_EQ(against_reference(hand.build(), unverified()), "equal");
  EXPECT_EQ(against_reference(hand.build(), unverified(1)), "equal");
  // Apart, on one queue, each rank sends before it receives.
  hand.rows[0][3] = "0SEND_F1@0";
  hand.rows[0].insert(hand.rows[0].begin() + 4, "0RECV_B0@0");
  hand.rows[1][3] = "1SEND_B0@0";
  hand.rows[1].insert(hand.rows[1].begin() + 4, "1RECV_F1@0");
  EXPECT_EQ(hang_of(hand.build()).size(), 4U);
}

TEST(ExecutorOutcome, ACollectiveWaitsForEveryMember) {
  PipelineSpec spec = chain_spec(2, 2, 1);
  spec.collectives = {{"barrier", {RankId(0), RankId(1)}}};
  HandProgram hand{
      .pipeline = spec, .communicators = communicators({{0, 1}}), .rows = {{"0COLL@0"}, {"0COLL@0"}}};
  EXPECT_EQ(run(hand.build(), NullModel(), unverified()).outcome, RunOutcome::finished);
  hand.rows[1].clear();
  EXPECT_EQ(hang_of(hand.build()), std::vector<std::string>{"rank 0: 0COLL never completes (only 1 of 2 "
                                                            "members of communicator c0 take part)"});
}

TEST(ExecutorOutcome, MismatchesAreNotRun) {
  const Program program = HandProgram{
      .pipeline = chain_spec(2, 2, 2),
      .communicators = communicators({{0, 1}}),
      .rows = {{"0F0", "0F1", "0SEND_F0@0", "0SEND_F1@0"},
               {"1RECV_F1@0", "1RECV_F0@0", "1F0",
                "1F1"}}}.build();
  const auto result = execute(program, NullModel(), unverified());
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, ErrorCode::ill_formed);
  EXPECT_NE(result.error().message.find("1RECV_F1"), std::string::npos) << result.error().message;
}

TEST(ExecutorOutcome, EveryTransitionHasATimeOfItsOwnButTheEndsOfOneMessage) {
  const Program program = two_rank_step();
  const TimedTrace trace = run(program, NullModel(), unverified()).trace();
  std::vector<Instant> instants;
  for (const Span& span : trace.spans) {
    EXPECT_LT(span.start, span.end);
    instants.push_back(span.start);
    instants.push_back(span.end);
  }
  std::sort(instants.begin(), instants.end());
  const auto distinct = std::unique(instants.begin(), instants.end()) - instants.begin();
  EXPECT_EQ(distinct, static_cast<std::ptrdiff_t>(instants.size()) - 2)
      << "two messages end two instructions each";
}

TEST(ExecutorOutcome, DoubledActionsRunTwice) {
  const Program program =
      HandProgram{.pipeline = chain_spec(2, 2, 1),
                  .communicators = communicators({{0, 1}, {0, 1}}),
                  .rows = {{"0F0", "0SEND_F0@0", "0SEND_F0@0", "0RECV_B0@1", "0B0", "0B0"},
                           {"1RECV_F0@0", "1RECV_F0@0", "1F0", "1F0", "1B0", "1SEND_B0@1"}}}
          .build();
  const RunResult result = run(program, NullModel(), unverified());
  EXPECT_EQ(result.outcome, RunOutcome::finished);
  EXPECT_EQ(memory_figures(program, NullModel(), result), "exact");
}

TEST(ExecutorOutcome, ATensorThatNoActionMakesIsAnError) {
  // W after B has the facts that it needs, but B leaves no inner gradients.
  const Program program =
      HandProgram{.pipeline = chain_spec(1, 1, 1), .rows = {{"0F0", "0B0", "0W0"}}}.build();
  const auto result = execute(program, LinearModel(), unverified());
  EXPECT_EQ(result.error().code, ErrorCode::ill_formed);
  EXPECT_NE(result.error().message.find("0W0"), std::string::npos) << result.error().message;
  EXPECT_NE(result.error().message.find("inner_gradients"), std::string::npos) << result.error().message;
}

TEST(ExecutorOutcome, AFailureOfTheModelIsNoHang) {
  class Broken final : public CpuStageModel {
   public:
    Expected<void> check(const Pipeline&) const override { return {}; }
    SizeTable sizes(const Pipeline& pipeline) const override { return NullModel().sizes(pipeline); }
    void initialize(const Pipeline&, BlockId, std::span<std::byte>, std::span<std::byte>) const override {}
    void load(const Pipeline&, MicrobatchId, const ActionBuffers&) const override {}
    void compute(const Pipeline&, const Action& action, const ActionBuffers&) const override {
      if (action.kind == OpKind::backward) throw std::domain_error("broken");
    }
    void update(std::span<std::byte>, std::span<std::byte>, std::span<std::byte>, double) const override {}
    void accumulate(std::span<std::byte>, std::span<const std::byte>) const override {}
    double squared_norm(std::span<const std::byte>) const override { return 0; }
    double max_abs_difference(std::span<const std::byte>, std::span<const std::byte>) const override {
      return 0;
    }
  };
  EXPECT_THROW((void)execute(two_rank_step(), Broken(), unverified()), std::domain_error);
}

}  // namespace
}  // namespace ppsim::test
