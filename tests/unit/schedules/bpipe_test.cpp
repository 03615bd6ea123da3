#include <gtest/gtest.h>

#include "ppsim/verifier/verify.hpp"
#include "support/closed_forms.hpp"
#include "support/finished_run.hpp"
#include "support/lowered.hpp"
#include "support/row_text.hpp"

// BPipe: Kim et al., ICML 2023, PMLR 202:16639. Rank x < p/2 lends to rank p - x - 1.

namespace ppsim {
namespace {

using test::generated;
using test::lowered;

std::vector<Bytes> peaks(const Schedule& schedule) {
  const CostTable costs = unit_cost_table({});
  const test::FinishedRun run(lowered(schedule, {.order = IssueOrder::timed}, &costs), costs,
                              activation_size_table(1));
  std::vector<Bytes> result;
  for (const RankMetrics& rank : run.metrics().ranks) result.push_back(rank.peak_bytes);
  return result;
}

TEST(BPipe, BalancesWhat1F1BPilesUpOnTheFirstRanks) {
  EXPECT_EQ(peaks(generated("1f1b", {.ranks = 8, .microbatches = 24})),
            (std::vector<Bytes>{8, 7, 6, 5, 4, 3, 2, 1}));
  EXPECT_EQ(peaks(generated("bpipe", {.ranks = 8, .microbatches = 24})),
            (std::vector<Bytes>{5, 5, 5, 5, 4, 5, 5, 5}));
}

TEST(BPipe, LendsNothingThatRecomputationDoesNotKeep) {
  const auto refused =
      lower(generated("bpipe", {.ranks = 4, .microbatches = 6}), {.recompute = Recompute::full});
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().message,
            "the schedule lends activations, and recompute full keeps none of stage 0");
}

// Four ranks, bound 3: 0F3 would be a fourth, so microbatch 1 leaves beside 0F2. It comes back beside 0F4,
// for which 3 leaves beside 0B0; microbatch 3 comes back in the pause of the cool-down.
TEST(BPipe, RowsOfAPair) {
  const Schedule schedule = generated("bpipe", {.ranks = 4, .microbatches = 6});
  EXPECT_EQ(test::row_text(schedule, 0),
            "0F0 0F1 0F2 0SEND_A1>3 0F3 0B0 0SEND_A3>3 0RECV_A1<3 0F4 0B1 0F5 0B2 0RECV_A3<3 0B3 0B4 0B5");
}

/// One activation less does not suffice, from four ranks on.
TEST(BPipe, TheBoundIsSharp) {
  for (int p = 4; p <= 8; p += 2) {
    VerifyOptions asked;
    asked.properties = {Property::memory};
    asked.sizes = activation_size_table(1);
    asked.memory_limit = (p + 3) / 2 - 1;
    const VerifyReport report =
        verify(lowered(generated("bpipe", {.ranks = p, .microbatches = 4 * p})), asked);
    EXPECT_TRUE(std::holds_alternative<Refuted>(report.results.front().verdict)) << p;
  }
}

TEST(BPipe, LendsNothingWhereEverythingFits) {
  for (const ScheduleParameters& parameters :
       {ScheduleParameters{.ranks = 3, .microbatches = 9}, {.ranks = 8, .microbatches = 5}}) {
    const Schedule schedule = generated("bpipe", parameters);
    const Schedule plain = generated("1f1b", parameters);
    for (int r = 0; r < parameters.ranks; ++r)
      EXPECT_EQ(test::row_text(schedule, r), test::row_text(plain, r));
  }
}

}  // namespace
}  // namespace ppsim
