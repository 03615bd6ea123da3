#include "ppsim/simulator/metrics/metrics.hpp"

#include <gtest/gtest.h>

#include "support/finished_run.hpp"
#include "support/hand_program.hpp"
#include "support/programs.hpp"
#include "support/timing.hpp"

namespace ppsim {
namespace {

using test::communicators;
using test::cost_table;
using test::FinishedRun;
using test::HandProgram;
using enum OpKind;

const CostTable kTwoRankCosts =
    cost_table({{forward, -1, 10}, {backward, -1, 20}, {send_forward, -1, 3}, {send_backward, -1, 4}});

/// 1F1B of two ranks and two microbatches.
Program one_f_one_b() {
  return HandProgram{{.ranks = 2, .stages = 2, .microbatches = 2},
                     communicators({{0, 1}, {0, 1}}),
                     {{"0F0", "0SEND_F0@0", "0F1", "0SEND_F1@0", "0RECV_B0@1", "0B0", "0RECV_B1@1", "0B1"},
                      {"1RECV_F0@0", "1F0", "1B0", "1SEND_B0@1", "1RECV_F1@0", "1F1", "1B1", "1SEND_B1@1"}}}
      .build();
}

TEST(Metrics, TimesOfTheComputeQueue) {
  const RunMetrics metrics = FinishedRun(test::two_rank_step(), kTwoRankCosts).metrics();
  EXPECT_EQ(metrics.times.makespan, 67);
  EXPECT_EQ(metrics.ranks[RankId(0)].times, (RankTimes{0, 67, 30}));
  EXPECT_EQ(metrics.ranks[RankId(1)].times, (RankTimes{13, 43, 30}));
  EXPECT_EQ(metrics.ranks[RankId(0)].idle(), 37);
  EXPECT_EQ(metrics.ranks[RankId(1)].idle(), 0);
}

TEST(Metrics, GapsGoToPhasesAndExposedTransfers) {
  const RunMetrics metrics = FinishedRun(test::two_rank_step(), kTwoRankCosts).metrics();
  // Rank 0 waits 37 between F and B, the last 4 of it for the transfer of the gradient.
  EXPECT_EQ(metrics.ranks[RankId(0)].bubble, (BubbleBreakdown{.warmup = 33, .exposed_communication = 4}));
  // Rank 1 waits 13 for its input, 3 of it for the transfer, and 24 after its last action.
  EXPECT_EQ(metrics.ranks[RankId(1)].bubble,
            (BubbleBreakdown{.warmup = 10, .cooldown = 24, .exposed_communication = 3}));
  EXPECT_EQ(metrics.bubble().total(), 2 * 67 - 60);
}

TEST(Metrics, SteadyGapsOfTheFasterRankAreImbalance) {
  const CostTable costs =
      cost_table({{forward, 0, 1}, {forward, 1, 10}, {backward, 0, 2}, {backward, 1, 20}});
  const RunMetrics metrics = FinishedRun(one_f_one_b(), costs).metrics();
  // Rank 0: F 0-1, F 1-2, B 31-33, B 61-63; rank 1 works from 1 to 61.
  EXPECT_EQ(metrics.ranks[RankId(0)].bubble, (BubbleBreakdown{.warmup = 3, .imbalance = 54}));
  EXPECT_EQ(metrics.ranks[RankId(1)].bubble, (BubbleBreakdown{.warmup = 1, .cooldown = 2}));
}

TEST(Metrics, ForwardOnlyHasSteadyAndCooldown) {
  const Program program =
      HandProgram{{.ranks = 2, .stages = 2, .microbatches = 2},
                  communicators({{0, 1}}),
                  {{"0F0", "0SEND_F0@0", "0F1", "0SEND_F1@0"}, {"1RECV_F0@0", "1F0", "1RECV_F1@0", "1F1"}}}
          .build();
  const CostTable costs = cost_table({{forward, 0, 10}, {forward, 1, 4}});
  const RunMetrics metrics = FinishedRun(program, costs).metrics();
  EXPECT_EQ(metrics.ranks[RankId(0)].bubble, (BubbleBreakdown{.cooldown = 4}));
  // 10 before its first action, 6 between its two; of these 16, rank 1 computes 12 less than rank 0.
  EXPECT_EQ(metrics.ranks[RankId(1)].bubble, (BubbleBreakdown{.warmup = 4, .imbalance = 12}));
}

TEST(Metrics, LiveActivationsOfOneFOneB) {
  const FinishedRun run(one_f_one_b(), kTwoRankCosts);
  EXPECT_EQ(peak_live_activations(run.program(), run.trace()).items(), (std::vector<int>{2, 1}));
}

TEST(Metrics, LiveActivationsEndWithTheWeightGradient) {
  const Program program = HandProgram{
      {.ranks = 1, .stages = 1, .microbatches = 2},
      {},
      {{"0F0", "0I0", "0F1", "0W0", "0I1",
        "0W1"}}}.build();
  const FinishedRun run(program,
                        cost_table({{forward, -1, 1}, {backward_input, -1, 1}, {backward_weight, -1, 1}}));
  EXPECT_EQ(peak_live_activations(run.program(), run.trace()).items(), std::vector<int>{2});
}

TEST(Metrics, LiveActivationsOfInferenceEndWithTheForward) {
  const Program program =
      HandProgram{{.ranks = 1, .stages = 1, .microbatches = 3}, {}, {{"0F0", "0F1", "0F2"}}}.build();
  const FinishedRun run(program, cost_table({{forward, -1, 1}}));
  EXPECT_EQ(peak_live_activations(run.program(), run.trace()).items(), std::vector<int>{1});
}

TEST(Metrics, LiveActivationsCountEveryRound) {
  // All at time 0: F0 and F1 live together in a round between.
  const Program program =
      HandProgram{{.ranks = 1, .stages = 1, .microbatches = 2}, {}, {{"0F0", "0F1", "0B0", "0B1"}}}.build();
  const FinishedRun run(program, CostTable());
  EXPECT_EQ(peak_live_activations(run.program(), run.trace()).items(), std::vector<int>{2});
}

TEST(Metrics, MemoryAndBytesSent) {
  SizeTable sizes;
  sizes.set({.kind = TensorKind::saved_for_weight}, 100);
  sizes.set({.kind = TensorKind::boundary_output}, 7);
  sizes.set({.kind = TensorKind::incoming_gradient}, 5);
  const RunMetrics metrics = FinishedRun(one_f_one_b(), kTwoRankCosts, sizes).metrics();
  EXPECT_EQ(metrics.ranks[RankId(0)].sent_bytes, 14);
  EXPECT_EQ(metrics.ranks[RankId(1)].sent_bytes, 10);
  EXPECT_GE(metrics.ranks[RankId(0)].peak_bytes, 200);
  EXPECT_LT(metrics.ranks[RankId(1)].peak_bytes, 200);
}

std::vector<std::string> path_of(const FinishedRun& run) {
  std::vector<std::string> texts;
  for (const CriticalPiece& piece : critical_path(run.timed_run())) {
    texts.push_back(std::to_string(piece.instruction.value()) + " " + std::to_string(piece.start) + "-" +
                    std::to_string(piece.end) + " " + std::string(critical_reason_name(piece)));
  }
  return texts;
}

TEST(Metrics, CriticalPathOfOneMicrobatch) {
  EXPECT_EQ(path_of(FinishedRun(test::two_rank_step(), kTwoRankCosts)),
            (std::vector<std::string>{"0 0-10 step_start", "1 10-13 data", "5 13-23 data", "6 23-43 data",
                                      "7 43-47 data", "3 47-67 data"}));
}

TEST(Metrics, CriticalPathNamesOrderingEdges) {
  const Program program = HandProgram{
      {.ranks = 2, .stages = 2, .microbatches = 2},
      communicators({{0, 1}}),
      {{"0F0", "0F1", "0SEND_F0@0", "0SEND_F1@0"},
       {"1RECV_F0@0", "1F0", "1RECV_F1@0 after 1",
        "1F1"}}}.build();
  const CostTable costs = cost_table({{forward, 0, 1}, {forward, 1, 10}, {send_forward, -1, 2}});
  EXPECT_EQ(path_of(FinishedRun(program, costs)),
            (std::vector<std::string>{"0 0-1 step_start", "2 1-3 data", "5 3-13 data", "6 13-15 after",
                                      "7 15-25 data"}));
}

TEST(Metrics, CriticalPathNamesTheFullChannel) {
  const Program program = HandProgram{
      {.ranks = 2, .stages = 2, .microbatches = 2},
      communicators({{0, 1}}),
      {{"0F0", "0F1", "{0SEND_F0@0 0SEND_F1@0}"},
       {"1RECV_F0@0", "1F0", "1RECV_F1@0 after 1",
        "1F1"}}}.build();
  const CostTable costs = cost_table({{forward, 0, 1}, {forward, 1, 10}, {send_forward, -1, 3}});
  EXPECT_EQ(path_of(FinishedRun(program, costs, {}, {.credits = 2})),
            (std::vector<std::string>{"0 0-1 step_start", "1 1-2 queue", "2 2-5 data", "4 5-15 data",
                                      "5 15-15 after", "6 15-25 data"}));
  EXPECT_EQ(path_of(FinishedRun(program, cost_table({{send_forward, -1, 3}}), {}, {.credits = 2})),
            (std::vector<std::string>{"0 0-0 step_start", "1 0-0 queue", "2 0-3 data", "2 3-6 channel",
                                      "6 6-6 data"}));
}

TEST(Metrics, Throughput) {
  const StepWork work{.tokens = 1000, .model_flops = 6e12, .peak_flops = 1e12};
  EXPECT_DOUBLE_EQ(tokens_per_second(work, 10'000'000'000), 100);
  EXPECT_DOUBLE_EQ(model_flops_utilization(work, 10'000'000'000), 0.6);
  EXPECT_EQ(tokens_per_second(work, 0), 0);
  EXPECT_EQ(model_flops_utilization({.tokens = 1}, 5), 0);
}

}  // namespace
}  // namespace ppsim
