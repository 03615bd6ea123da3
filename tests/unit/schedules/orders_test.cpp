#include <gtest/gtest.h>

#include "support/closed_forms.hpp"
#include "support/row_text.hpp"

namespace ppsim {
namespace {

using test::generated;
using test::row_text;

TEST(Orders, GpipeRunsAllForwardsFirst) {
  EXPECT_EQ(row_text(generated("gpipe", {.ranks = 2, .microbatches = 3}), 1), "1F0 1F1 1F2 1B0 1B1 1B2");
}

TEST(Orders, GpipeBackwardReversed) {
  const ScheduleParameters parameters{.ranks = 2, .microbatches = 3, .settings = {{"backward", "reversed"}}};
  EXPECT_EQ(row_text(generated("gpipe", parameters), 0), "0F0 0F1 0F2 0B2 0B1 0B0");
}

TEST(Orders, OneFOneB) {
  const Schedule schedule = generated("1f1b", {.ranks = 3, .microbatches = 4});
  EXPECT_EQ(row_text(schedule, 0), "0F0 0F1 0F2 0B0 0F3 0B1 0B2 0B3");
  EXPECT_EQ(row_text(schedule, 2), "2F0 2B0 2F1 2B1 2F2 2B2 2F3 2B3");
}

TEST(Orders, OneFOneBWithFewerMicrobatchesThanRanks) {
  const Schedule schedule = generated("1f1b", {.ranks = 4, .microbatches = 2});
  EXPECT_EQ(row_text(schedule, 0), "0F0 0F1 0B0 0B1");
  EXPECT_EQ(row_text(schedule, 3), "3F0 3B0 3F1 3B1");
}

// The warm-up of rank 0 is 2 (p - 1) + (v - 1) p = 4, then F and B in turn, as in Megatron-LM's schedule
// table and PyTorch's ScheduleInterleaved1F1B.
TEST(Orders, InterleavedAsMegatronAndPyTorch) {
  const Schedule schedule = generated("interleaved-1f1b", {.ranks = 2, .microbatches = 4, .chunks = 2});
  EXPECT_EQ(row_text(schedule, 0), "0F0 0F1 2F0 2F1 0F2 2B0 0F3 2B1 2F2 0B0 2F3 0B1 2B2 2B3 0B2 0B3");
  EXPECT_EQ(row_text(schedule, 1), "1F0 1F1 3F0 3B0 3F1 3B1 1F2 1B0 1F3 1B1 3F2 3B2 3F3 3B3 1B2 1B3");
}

/// The forward_order of a row in the order of the chunks' turns.
std::string forward_order(const Schedule& schedule, int rank) {
  std::string text;
  for (const Cell& cell : schedule.row(RankId(rank))) {
    const Action& action = cell.actions().front();
    if (action.kind == OpKind::forward)
      text += std::to_string(action.subject) + ":" + std::to_string(action.microbatch) + " ";
  }
  return text;
}

// PyTorch: max(1, 5 / 2) = 2 rounds do not divide 5 microbatches; the larger group comes first.
TEST(Orders, InterleavedGroupsDifferByOneAtMost) {
  const Schedule schedule = generated("interleaved-1f1b", {.ranks = 2, .microbatches = 5, .chunks = 2});
  EXPECT_EQ(forward_order(schedule, 0), "0:0 0:1 0:2 2:0 2:1 2:2 0:3 0:4 2:3 2:4 ");
}

// Megatron-LM: groups of 3, and a last one of 2, no smaller than p.
TEST(Orders, InterleavedKeepsALastGroupOfAtLeastPRanks) {
  const ScheduleParameters parameters{
      .ranks = 2, .microbatches = 5, .chunks = 2, .settings = {{"group", "3"}}};
  EXPECT_EQ(forward_order(generated("interleaved-1f1b", parameters), 0),
            "0:0 0:1 0:2 2:0 2:1 2:2 0:3 0:4 2:3 2:4 ");
}

TEST(Orders, InterleavedJoinsASmallerLastGroup) {
  const ScheduleParameters parameters{
      .ranks = 2, .microbatches = 5, .chunks = 2, .settings = {{"group", "2"}}};
  EXPECT_EQ(forward_order(generated("interleaved-1f1b", parameters), 0),
            "0:0 0:1 2:0 2:1 0:2 0:3 0:4 2:2 2:3 2:4 ");
}

TEST(Orders, InterleavedOfOneChunkIsOneFOneBWithAWarmupForTheWayBack) {
  const Schedule schedule = generated("interleaved-1f1b", {.ranks = 3, .microbatches = 3, .chunks = 1});
  EXPECT_EQ(row_text(schedule, 2), "2F0 2B0 2F1 2B1 2F2 2B2");
  EXPECT_EQ(row_text(schedule, 0), "0F0 0F1 0F2 0B0 0B1 0B2");
}

// Qi et al., figure 2 and appendix: p = 4, m = 8, rank 2.
TEST(Orders, ZbH1) {
  EXPECT_EQ(
      row_text(generated("zb-h1", {.ranks = 4, .microbatches = 8}), 2),
      "2F0 2F1 2I0 2F2 2I1 2F3 2I2 2W0 2F4 2I3 2W1 2F5 2I4 2W2 2F6 2I5 2W3 2F7 2I6 2W4 2I7 2W5 2W6 2W7");
}

TEST(Orders, ZbH2) {
  EXPECT_EQ(
      row_text(generated("zb-h2", {.ranks = 4, .microbatches = 8}), 2),
      "2F0 2F1 2F2 2I0 2F3 2I1 2F4 2I2 2F5 2I3 2F6 2I4 2W0 2F7 2I5 2W1 2I6 2W2 2I7 2W3 2W4 2W5 2W6 2W7");
}

}  // namespace
}  // namespace ppsim
