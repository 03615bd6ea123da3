#include <gtest/gtest.h>

#include "ppsim/core/ir/padding.hpp"
#include "ppsim/verifier/verify.hpp"
#include "support/closed_forms.hpp"
#include "support/finished_run.hpp"
#include "support/lowered.hpp"
#include "support/row_text.hpp"

// SPMD pipelines: a scan over ticks, in which bubbles compute padding.

namespace ppsim {
namespace {

using test::generated;
using test::lowered;

RunMetrics metrics_of(const Schedule& schedule, const StageCosts& stage_costs,
                      IssueOrder order = IssueOrder::timed) {
  const CostTable costs = test::cost_table(stage_costs);
  return test::FinishedRun(lowered(schedule, {.order = order}, &costs), costs, activation_size_table(1))
      .metrics();
}

// Microbatches 2, ..., 5 are padding: 2 and 3 start on ranks 1 and 2 in tick 0, 4 and 5 end there.
TEST(Spmd, RowsOfThreeRanks) {
  const Schedule schedule = generated("spmd-gpipe", {.ranks = 3, .microbatches = 2});
  EXPECT_EQ(test::row_text(schedule, 0), "0F0 0F1 0F4 0F5 0B5 0B4 0B1 0B0");
  EXPECT_EQ(test::row_text(schedule, 1), "1F2 1F0 1F1 1F4 1B4 1B1 1B0 1B2");
  EXPECT_EQ(test::row_text(schedule, 2), "2F3 2F2 2F0 2F1 2B1 2B0 2B2 2B3");
}

TEST(Spmd, CircularRowsTakeAllMicrobatchesRoundBeforeTheNextChunk) {
  const Schedule schedule = generated("spmd-circular", {.ranks = 2, .microbatches = 3});
  EXPECT_EQ(test::row_text(schedule, 0), "0F0 0F1 0F2 2F0 2F1 2F2 2F4 2B4 2B2 2B1 2B0 0B2 0B1 0B0");
  EXPECT_EQ(test::row_text(schedule, 1), "1F3 1F0 1F1 1F2 3F0 3F1 3F2 3B2 3B1 3B0 1B2 1B1 1B0 1B3");
}

TEST(Spmd, OnlyPaddingFeedsNoUpdate) {
  const Pipeline pipeline = generated("spmd-circular", {.ranks = 4, .microbatches = 8}).pipeline();
  EXPECT_EQ(batch_microbatches(pipeline), 8);
  EXPECT_EQ(pipeline.microbatches(), 8 + 2 * 3);
  EXPECT_FALSE(is_padding(pipeline, MicrobatchId(7)));
  EXPECT_TRUE(is_padding(pipeline, MicrobatchId(8)));
  EXPECT_EQ(pipeline.microbatches_of_update(0).size(), 8U);
}

// Nobody reads what padding computes: that it comes after the update of its weights does not matter.
TEST(Spmd, PaddingMayComeAfterTheUpdate) {
  for (const char* name : {"spmd-gpipe", "spmd-circular"}) {
    const Program program = lowered(generated(name, {.ranks = 3, .microbatches = 4}), {.optimizer = true});
    for (const PropertyResult& result : verify(program, {}).results)
      EXPECT_FALSE(std::holds_alternative<Refuted>(result.verdict))
          << name << " " << property_name(result.property);
  }
}

// Every rank computes from the first tick to the last one, and none of what padding takes counts as work.
TEST(Spmd, PaddingIsBubble) {
  const RunMetrics spmd = metrics_of(generated("spmd-gpipe", {.ranks = 4, .microbatches = 8}), {});
  const RunMetrics gpipe = metrics_of(generated("gpipe", {.ranks = 4, .microbatches = 8}), {});
  EXPECT_EQ(spmd.times.makespan, 33);
  for (int r = 0; r < 4; ++r) {
    const RankMetrics& rank = spmd.ranks[RankId(r)];
    EXPECT_EQ(rank.times.busy, 24);
    EXPECT_EQ(rank.times.span(), 33);
    EXPECT_EQ(rank.bubble.warmup + rank.bubble.steady + rank.bubble.cooldown, 9);
    EXPECT_EQ(gpipe.ranks[RankId(r)].times.busy, 24);
  }
}

// GPipe keeps m, a scan its m + p - 1 ticks; 1F1B keeps p - r.
TEST(Spmd, MemoryCountsTicks) {
  const RunMetrics spmd = metrics_of(generated("spmd-gpipe", {.ranks = 4, .microbatches = 8}), {});
  const RunMetrics circular = metrics_of(generated("spmd-circular", {.ranks = 4, .microbatches = 8}), {});
  for (int r = 0; r < 4; ++r) {
    EXPECT_EQ(spmd.ranks[RankId(r)].peak_bytes, 11);
    EXPECT_EQ(circular.ranks[RankId(r)].peak_bytes, 19);
  }
}

// In lockstep: with receives just in time every tick but the last of each scan pays for its permute.
TEST(Spmd, TicksPayForTheirPermutesWhereNothingHidesThem) {
  const StageCosts costs{.forward = 10, .backward = 20, .transfer = 3};
  for (const auto& [name, ticks] : {std::pair("spmd-gpipe", 11), std::pair("spmd-circular", 19)}) {
    const Schedule schedule = generated(name, {.ranks = 4, .microbatches = 8});
    const RunMetrics run = metrics_of(schedule, costs, IssueOrder::early);
    EXPECT_EQ(run.times.makespan, ticks * 30 + 2 * (ticks - 1) * 3) << name;
  }
}

TEST(Spmd, AllPropertiesHoldOnEveryTransport) {
  for (const char* name : {"spmd-gpipe", "spmd-circular"}) {
    const Program program =
        lowered(generated(name, {.ranks = 3, .microbatches = 4}), {.reduce_grad = true, .optimizer = true});
    const VerifyReport report = verify(program, {});
    for (const PropertyResult& result : report.results)
      EXPECT_TRUE(std::holds_alternative<Proved>(result.verdict)) << name;
  }
}

TEST(Spmd, FewMicrobatchesDoNotComeRoundInTime) {
  const auto refused = generate("spmd-circular", {.ranks = 4, .microbatches = 3});
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().message,
            "spmd-circular: several chunks need at least as many microbatches as ranks, 4, found 3");
  EXPECT_TRUE(generate("spmd-circular", {.ranks = 4, .microbatches = 3, .chunks = 1}).has_value());
}

}  // namespace
}  // namespace ppsim
