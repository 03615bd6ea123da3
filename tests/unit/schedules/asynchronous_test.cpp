#include <gtest/gtest.h>

#include "support/closed_forms.hpp"
#include "support/row_text.hpp"

// PipeDream (1806.03377) and PipeDream-2BW (2006.09503).

namespace ppsim {
namespace {

using test::generated;
using test::row_text;

TEST(AsynchronousOrders, PipeDreamUpdatesAfterEveryBackward) {
  const Schedule schedule = generated("pipedream", {.ranks = 3, .microbatches = 4});
  EXPECT_EQ(row_text(schedule, 0), "0F0 0F1 0F2 0B0 0OPT0 0F3 0B1 0OPT1 0B2 0OPT2 0B3 0OPT3");
  EXPECT_EQ(row_text(schedule, 2), "2F0 2B0 2OPT0 2F1 2B1 2OPT1 2F2 2B2 2OPT2 2F3 2B3 2OPT3");
}

TEST(AsynchronousOrders, PipeDreamReadsAnotherVersionOnEveryRank) {
  const Schedule schedule = generated("pipedream", {.ranks = 3, .microbatches = 6});
  const auto version = [&](int rank, int mb) {
    return schedule.pipeline().version(StageId(rank), MicrobatchId(mb));
  };
  EXPECT_EQ(version(0, 5), 3);
  EXPECT_EQ(version(1, 5), 4);
  EXPECT_EQ(version(2, 5), 5);
  EXPECT_EQ(version(0, 1), 0) << "the first microbatches find the weights of the start";
}

TEST(AsynchronousOrders, TwoBuffersUpdateAfterEveryMacrobatch) {
  const Schedule schedule =
      generated("pipedream-2bw", {.ranks = 2, .microbatches = 7, .settings = {{"macrobatch", "3"}}});
  EXPECT_EQ(row_text(schedule, 0),
            "0F0 0F1 0B0 0F2 0B1 0F3 0B2 0OPT0 0F4 0B3 0F5 0B4 0F6 0B5 0OPT1 0B6 0OPT2");
  // W(t + 1) = W(t) - gradient of W(t - 1): the first two macrobatches read the weights of the start.
  std::vector<int> versions;
  for (int m = 0; m < 7; ++m) {
    versions.push_back(schedule.pipeline().version(StageId(1), MicrobatchId(m)));
  }
  EXPECT_EQ(versions, (std::vector<int>{0, 0, 0, 0, 0, 0, 1}));
}

// Section 3.1: fewer microbatches than ranks would need more than two versions.
TEST(AsynchronousOrders, TwoBuffersNeedMacrobatchesOfAsManyMicrobatchesAsRanks) {
  const auto refused =
      generate("pipedream-2bw", {.ranks = 4, .microbatches = 8, .settings = {{"macrobatch", "3"}}});
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().message,
            "pipedream-2bw: macrobatch must be a whole number in [4, 16777216], found \"3\"");
}

}  // namespace
}  // namespace ppsim
