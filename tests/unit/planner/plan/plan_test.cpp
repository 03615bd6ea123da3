#include "ppsim/planner/plan.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace ppsim {
namespace {

PlanRequest small_request() {
  PlanRequest request;
  request.work.model = *model_from_name("llama3-8b:layers=8,sequence=2048");
  request.work.cluster = *cluster_from_name("dgx-h100", 1);
  request.work.stack = *stack_from_name("megatron-core");
  request.work.parallelism.global_batch_size = 16;
  return request;
}

TEST(Plan, BestComesFirstAndEachGroupOnce) {
  const PlanRequest request = small_request();
  const auto found = planner::plan(request);
  ASSERT_TRUE(found) << found.error();
  ASSERT_EQ(found->best.size(), 10U);
  EXPECT_TRUE(found->complete);
  for (std::size_t i = 1; i < found->best.size(); ++i) {
    EXPECT_LE(found->best[i - 1].step, found->best[i].step);
    EXPECT_FALSE(found->best[i - 1].choice.parallelism == found->best[i].choice.parallelism &&
                 found->best[i - 1].choice.checkpoints == found->best[i].choice.checkpoints &&
                 found->best[i - 1].choice.schedule == found->best[i].choice.schedule);
  }
  for (const PlanRow& row : found->best) EXPECT_GE(row.spare_bytes(), 0);
}

TEST(Plan, PartsAddUpToTheStep) {
  const auto found = planner::plan(small_request());
  ASSERT_TRUE(found) << found.error();
  for (const PlanRow& row : found->best) {
    EXPECT_EQ(row.parts.layers + row.parts.bubble + row.parts.communication + row.parts.step_end, row.step);
    EXPECT_GE(row.parts.bubble, 0);
  }
}

TEST(Plan, RowsAreWhatOnePlanIsSimulatedAs) {
  const PlanRequest request = small_request();
  const auto found = planner::plan(request);
  ASSERT_TRUE(found) << found.error();
  for (const PlanRow& row : found->best) EXPECT_EQ(*planner::plan_row(request, row.choice), row);
}

/// DualPipe-V overlaps F and B on one rank, too, and so hides an exchange with experts that plans of other
/// schedules with as many ranks wait for.
TEST(Plan, AnOverlapOnOneRankIsNotBoundedAsIfItHidNothing) {
  PlanRequest request;
  request.work.model = *model_from_name("mixtral-8x7b:layers=2,sequence=2048");
  request.work.cluster = *cluster_from_name("dgx-h100", 1);
  request.work.cluster.node.gpus = 4;
  request.work.cluster.gpu.memory_bytes = 16'000'000'000;
  request.work.stack = *stack_from_name("megatron-bridge");
  request.work.whole_step = false;
  request.work.parallelism.global_batch_size = 6;
  request.fixed = {{"microbatch-size", {"2"}}, {"cp", {"1"}}, {"schedule", {"1f1b-v", "dualpipe-v"}}};
  request.top = 1;
  const auto pruned = planner::plan(request);
  request.prunes = false;
  const auto all = planner::plan(request);
  ASSERT_TRUE(pruned && all);
  EXPECT_EQ(pruned->best.front(), all->best.front());
  EXPECT_EQ(all->best.front().choice.schedule, "dualpipe-v");
  EXPECT_EQ(all->best.front().choice.parallelism.pipeline, 1);
}

TEST(Plan, FrontNeedsLessAndLess) {
  PlanRequest request = small_request();
  request.front = 1.5;
  const auto found = planner::plan(request);
  ASSERT_TRUE(found) << found.error();
  ASSERT_GT(found->front.size(), 1U);
  EXPECT_EQ(found->front.front(), found->best.front());
  for (std::size_t i = 1; i < found->front.size(); ++i) {
    EXPECT_LT(found->front[i].peak_bytes, found->front[i - 1].peak_bytes);
    EXPECT_GE(found->front[i].step, found->front[i - 1].step);
  }
}

TEST(Plan, FixedValuesAreKept) {
  PlanRequest request = small_request();
  request.fixed = {{"pp", {"4"}}, {"schedule", {"zb-v", "1f1b"}}, {"recompute", {"none"}}, {"dp", {"2"}}};
  const auto found = planner::plan(request);
  ASSERT_TRUE(found) << found.error();
  ASSERT_FALSE(found->best.empty());
  for (const PlanRow& row : found->best) {
    EXPECT_EQ(row.choice.parallelism.pipeline, 4);
    EXPECT_EQ(row.choice.parallelism.data, 2);
    EXPECT_EQ(row.choice.parallelism.recompute, StageRecompute());
    EXPECT_TRUE(row.choice.schedule == "zb-v" || row.choice.schedule == "1f1b");
  }
}

TEST(Plan, LayersAreRecomputedAsThePolicyOfAStackDoesIt) {
  PlanRequest request = small_request();
  request.fixed = {{"recompute", {"nothing_saveable"}}};
  const auto found = planner::plan(request);
  ASSERT_TRUE(found) << found.error();
  ASSERT_FALSE(found->best.empty());
  const PlanRow& row = found->best.front();
  EXPECT_EQ(row.choice.recompute_text(), "nothing_saveable");
  PlanChoice plain = row.choice;
  plain.checkpoints = std::nullopt;
  request.work.stack.checkpoints = checkpoint_policy_from_name("nothing_saveable");
  const auto same = planner::plan_row(request, plain);
  ASSERT_TRUE(same) << same.error();
  EXPECT_EQ(same->step, row.step);
  EXPECT_EQ(same->peak_bytes, row.peak_bytes);
  request.work.stack.checkpoints = std::nullopt;
  EXPECT_NE(planner::plan_row(request, plain)->peak_bytes, row.peak_bytes);
}

TEST(Plan, LayersAreSearchedWhereRecomputingThemIsPriced) {
  PlanRequest request = small_request();
  request.prunes = false;
  request.top = 1000;
  request.fixed = {{"tp", {"2"}}, {"pp", {"2"}}, {"schedule", {"1f1b"}}, {"microbatch-size", {"1"}}};
  const auto searched = [&] {
    std::set<std::string> recomputes;
    const auto found = planner::plan(request);
    if (!found) return recomputes;
    for (const PlanRow& row : found->best) recomputes.insert(row.choice.recompute_text());
    return recomputes;
  };
  EXPECT_EQ(searched(), (std::set<std::string>{"full", "none", "nothing_saveable", "selective"}));
  request.work.model = *model_from_name("mixtral-8x7b");
  request.work.model.layers = 2;
  EXPECT_EQ(searched(), (std::set<std::string>{"full", "none", "selective"}));
}

/// Selective recompute adds to W and recompute of layers to I: where W is measured as slower and I as faster
/// than the model says, the bound of one is no bound of the other.
TEST(Plan, ACalibrationMayTurnTheOrderOfRecomputes) {
  PlanRequest request;
  request.work.model = *model_from_name("llama3-8b:layers=8,sequence=65536");
  request.work.cluster = *cluster_from_name("dgx-h200", 1);
  request.work.stack = *stack_from_name("megatron-core");
  request.work.stack.selective = workload::SelectiveRecompute::attention_core;
  request.work.parallelism.global_batch_size = 64;
  request.work.calibration.factors = {
      {OpKind::backward_input, 0.7}, {OpKind::backward_weight, 1.4}, {OpKind::backward, 1.2}};
  request.fixed = {{"pp", {"1"}},      {"tp", {"1", "4"}},         {"dp", {"1", "2"}},
                   {"cp", {"1", "8"}}, {"microbatch-size", {"1"}}, {"schedule", {"zb-h1"}}};
  request.top = 1;
  request.front = 1;
  const auto best = [&](const std::vector<std::string>& recomputes) {
    request.fixed["recompute"] = recomputes;
    return planner::plan(request)->best.front().step;
  };
  const Nanoseconds layers = best({"nothing_saveable"});
  EXPECT_LT(layers, best({"selective"}));
  EXPECT_EQ(best({"selective", "nothing_saveable"}), layers);
}

TEST(Plan, FixedNumbersThatNoPlanCanHaveAreNamed) {
  PlanRequest request = small_request();
  request.fixed = {{"pp", {"4", "3"}}, {"schedule", {"interleaved-1f1b"}}, {"chunks", {"2", "500"}}};
  const auto found = planner::plan(request);
  ASSERT_TRUE(found) << found.error();
  EXPECT_EQ(found->unused, (std::vector<std::string>{"chunks=500", "pp=3"}));
  request.fixed = {{"pp", {"4", "2"}}, {"schedule", {"1f1b"}}};
  EXPECT_TRUE(planner::plan(request)->unused.empty());
}

TEST(Plan, UnknownKeysAndValuesAreNamed) {
  PlanRequest request = small_request();
  request.fixed = {{"chunk", {"4"}}};
  EXPECT_NE(planner::plan(request).error().message.find("chunks"), std::string::npos);
  request.fixed = {{"layout", {"odd"}}};
  EXPECT_EQ(planner::plan(request).error().place.found, "layout=odd");
  request.fixed = {{"tp", {"0"}}};
  EXPECT_EQ(planner::plan(request).error().place.found, "tp=0");
}

TEST(Plan, TheTightestMissIsFoundWhereNothingFits) {
  PlanRequest request = small_request();
  request.work.cluster.gpu.memory_bytes = 1'000'000'000;
  const auto found = planner::plan(request);
  ASSERT_TRUE(found) << found.error();
  EXPECT_TRUE(found->best.empty());
  ASSERT_TRUE(found->tightest);
  EXPECT_GT(found->tightest->peak_bytes, 1'000'000'000);
  // With so much there is a plan.
  request.work.cluster.gpu.memory_bytes = found->tightest->peak_bytes;
  EXPECT_FALSE(planner::plan(request)->best.empty());
  --request.work.cluster.gpu.memory_bytes;
  EXPECT_TRUE(planner::plan(request)->best.empty());
}

TEST(Plan, SpareMemoryIsLeft) {
  PlanRequest request = small_request();
  request.min_spare_bytes = 60'000'000'000;
  const auto found = planner::plan(request);
  ASSERT_TRUE(found) << found.error();
  ASSERT_FALSE(found->best.empty());
  for (const PlanRow& row : found->best) EXPECT_GE(row.spare_bytes(), 60'000'000'000);
}

TEST(Plan, MemoryAsObjectiveTakesTheLeast) {
  PlanRequest request = small_request();
  request.objective = PlanObjective::memory;
  const auto found = planner::plan(request);
  ASSERT_TRUE(found) << found.error();
  const auto by_time = planner::plan(small_request());
  ASSERT_FALSE(found->best.empty());
  EXPECT_TRUE(std::ranges::is_sorted(found->best, {}, &PlanRow::peak_bytes));
  EXPECT_LE(found->best.front().peak_bytes, by_time->best.front().peak_bytes);
}

TEST(Plan, GpuHoursDecideBetweenNumbersOfNodes) {
  PlanRequest request = small_request();
  request.nodes = {1, 2};
  request.fixed = {{"tp", {"1"}}, {"cp", {"1"}}, {"recompute", {"none"}}};
  const auto fast = planner::plan(request);
  request.objective = PlanObjective::tokens_per_dollar;
  const auto cheap = planner::plan(request);
  ASSERT_TRUE(fast && cheap);
  EXPECT_EQ(fast->best.front().choice.nodes, 2);
  EXPECT_EQ(cheap->best.front().choice.nodes, 1);
}

TEST(Plan, StoppedSaysSo) {
  PlanRequest request = small_request();
  request.stopped = [] { return true; };
  const auto found = planner::plan(request);
  ASSERT_TRUE(found) << found.error();
  EXPECT_FALSE(found->complete);
}

TEST(Plan, AChoiceIsReadInWords) {
  const PlanRequest request = small_request();
  const auto choice = parse_plan_choice(request, "pp=2,schedule=interleaved-1f1b,chunks=2,recompute=full");
  ASSERT_TRUE(choice) << choice.error();
  EXPECT_EQ(choice->parallelism.pipeline, 2);
  EXPECT_EQ(choice->parallelism.data, 4);
  EXPECT_EQ(choice->chunks, 2);
  EXPECT_EQ(choice->parallelism.recompute, StageRecompute(Recompute::full));
  EXPECT_FALSE(parse_plan_choice(request, "pp=3"));
  EXPECT_FALSE(parse_plan_choice(request, "pp"));
}

TEST(Plan, TheBestIsProved) {
  const PlanRequest request = small_request();
  const auto found = planner::plan(request);
  ASSERT_TRUE(found) << found.error();
  const auto proof = planner::verify_plan(request, found->best.front().choice);
  ASSERT_TRUE(proof) << proof.error();
  EXPECT_TRUE(proof->proved(Property::deadlock_free));
}

TEST(Plan, DifferencesAreNamed) {
  PlanRow best;
  best.step = 100'000'000;
  best.parts = {80'000'000, 20'000'000, 0, 0};
  PlanRow other = best;
  other.parts = {79'000'000, 30'000'000, 0, 500'000};
  EXPECT_EQ(planner::why_slower(best, other), "bubble +10.0 ms, layers -1.0 ms, step end +0.5 ms");
  other.choice.parallelism.tensor = 4;
  EXPECT_EQ(planner::what_differs(best.choice, other.choice), "tp 1 in place of 4");
}

}  // namespace
}  // namespace ppsim
