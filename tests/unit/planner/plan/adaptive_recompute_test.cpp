#include "ppsim/planner/recompute/adaptive_recompute.hpp"

#include <gtest/gtest.h>

#include "ppsim/core/lowering/lowering.hpp"
#include "ppsim/planner/evaluate.hpp"
#include "support/closed_forms.hpp"

// The choice of recomputation per stage, in the spirit of AdaPipe (Sun et al., ASPLOS 2024).

namespace ppsim {
namespace {

/// Llama 3 70B on 8 servers of 8 GPUs with this much memory each.
Workload llama(int ranks, Bytes memory, int microbatches) {
  Workload workload{
      model_from_name("llama3-70b").value(), cluster_from_name("dgx-h100", 8).value(),
      Parallelism{
          .tensor = 64 / ranks / 2, .pipeline = ranks, .data = 2, .global_batch_size = 2 * microbatches}};
  workload.cluster.gpu.memory_bytes = memory;
  return workload;
}

SimulatedStep step_of(const Schedule& schedule, Workload workload, const StageRecompute& recompute) {
  workload.parallelism.recompute = recompute;
  const CostBinding costs = bind_cost_source(workload, schedule.pipeline()).value();
  Program program =
      lower(schedule, {.order = IssueOrder::timed, .recompute = recompute}, &costs.tables.costs).value();
  return evaluate(schedule.name(), std::move(program), costs).value();
}

constexpr Bytes kGigabyte = 1'000'000'000;

/// The peak of the schedule under a uniform choice, largest over the ranks.
Bytes peak_of(const Schedule& schedule, const Workload& workload, Recompute recompute) {
  return step_of(schedule, workload, recompute).peak_bytes();
}

class AdaptiveRecompute : public testing::Test {
 protected:
  Schedule schedule_ = test::generated("1f1b", {.ranks = 4, .microbatches = 16});
  Workload workload_ = llama(4, 80 * kGigabyte, 16);
  Bytes none_ = peak_of(schedule_, workload_, Recompute::none);
  Bytes full_ = peak_of(schedule_, workload_, Recompute::full);

  Expected<StageRecompute> within(Bytes memory) {
    workload_.cluster.gpu.memory_bytes = memory;
    return adaptive_recompute(schedule_, workload_);
  }
};

TEST_F(AdaptiveRecompute, RecomputesNothingWhereAllFits) { EXPECT_EQ(within(none_), StageRecompute()); }

TEST_F(AdaptiveRecompute, NeverExceedsTheMemory) {
  ASSERT_LT(full_, none_);
  for (int i = 0; i <= 10; ++i) {
    const Bytes memory = full_ + (none_ - full_) * i / 10;
    const auto choice = within(memory);
    ASSERT_TRUE(choice.has_value()) << memory;
    EXPECT_LE(step_of(schedule_, workload_, *choice).peak_bytes(), memory) << *choice;
  }
}

/// Rank r of 1F1B holds p - r activations: what the first ranks must recompute the last ones can keep.
TEST_F(AdaptiveRecompute, EarlierStagesOf1F1BRecomputeMore) {
  const StageRecompute choice = within((full_ + none_) / 2).value();
  EXPECT_NE(choice(StageId(0)), Recompute::none) << choice;
  EXPECT_EQ(choice(StageId(3)), Recompute::none) << choice;
  for (int s = 1; s < 4; ++s) EXPECT_LE(choice(StageId(s)), choice(StageId(s - 1))) << choice;
}

TEST_F(AdaptiveRecompute, IsNoSlowerThanAnyUniformChoiceThatFits) {
  for (int i = 0; i <= 10; ++i) {
    const Bytes memory = full_ + (none_ - full_) * i / 10;
    const Nanoseconds chosen = step_of(schedule_, workload_, within(memory).value()).metrics.times.makespan;
    for (const Recompute uniform : {Recompute::none, Recompute::selective, Recompute::full}) {
      const SimulatedStep step = step_of(schedule_, workload_, uniform);
      if (step.peak_bytes() > memory) continue;
      EXPECT_LE(chosen, step.metrics.times.makespan);
    }
  }
  EXPECT_LT(step_of(schedule_, workload_, within((full_ + none_) / 2).value()).metrics.times.makespan,
            step_of(schedule_, workload_, Recompute::full).metrics.times.makespan);
}

TEST_F(AdaptiveRecompute, SaysWhatIsMissingWhereNothingFits) {
  const auto choice = within(full_ - 1);
  ASSERT_FALSE(choice.has_value());
  EXPECT_NE(choice.error().message.find("rank"), std::string::npos);
  EXPECT_NE(choice.error().place.found.find(std::to_string(full_)), std::string::npos) << choice.error();
  EXPECT_NE(choice.error().place.expected.find(std::to_string(full_ - 1)), std::string::npos);
}

/// The choice for several stages of a rank is the cheapest of all combinations: on rank 0, with the others as
/// chosen, no cheaper one fits.
TEST(AdaptiveRecomputeOfChunks, IsTheCheapestCombinationThatFits) {
  const Schedule schedule = test::generated("interleaved-1f1b", {.ranks = 4, .microbatches = 8, .chunks = 2});
  Workload workload = llama(4, 80 * kGigabyte, 8);
  const Bytes none = peak_of(schedule, workload, Recompute::none);
  const Bytes full = peak_of(schedule, workload, Recompute::full);
  workload.cluster.gpu.memory_bytes = (2 * none + 3 * full) / 5;
  const StageRecompute chosen = adaptive_recompute(schedule, workload).value();
  const auto busy = [](const SimulatedStep& step) { return step.metrics.times.ranks[RankId(0)].busy; };
  const SimulatedStep best = step_of(schedule, workload, chosen);
  ASSERT_TRUE(best.fits());
  int cheaper = 0;
  for (const Recompute first : {Recompute::none, Recompute::selective, Recompute::full}) {
    for (const Recompute second : {Recompute::none, Recompute::selective, Recompute::full}) {
      std::map<StageId, Recompute> other = chosen.stages();
      other[StageId(0)] = first;
      other[StageId(4)] = second;
      const SimulatedStep step = step_of(schedule, workload, StageRecompute(other));
      if (busy(step) >= busy(best)) continue;
      ++cheaper;
      EXPECT_GT(step.metrics.ranks[RankId(0)].peak_bytes, workload.cluster.gpu.memory_bytes);
    }
  }
  EXPECT_GT(cheaper, 0);
}

}  // namespace
}  // namespace ppsim
