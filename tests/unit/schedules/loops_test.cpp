#include <gtest/gtest.h>

#include "support/closed_forms.hpp"
#include "support/row_text.hpp"

// Orders of Eager 1F1B and of schedules with looped chunks, and figures for their closed forms.

namespace ppsim {
namespace {

using test::generated;
using test::row_text;

Nanoseconds loop_makespan(std::string_view name, const ScheduleParameters& parameters,
                          const StageCosts& costs) {
  return test::step_time(generated(name, parameters), test::cost_table(costs)).makespan;
}

std::optional<Nanoseconds> claimed(std::string_view name, const ScheduleParameters& parameters,
                                   const StageCosts& costs) {
  return (**find_schedule(name)).forms.makespan(parameters, costs);
}

// Warm-up min(m, 2(p - r) - 1), as JaxPP's Eager1F1B and alpa's 1f1b_overlap_friendly.
TEST(EagerOneFOneB, Order) {
  const Schedule schedule = generated("eager-1f1b", {.ranks = 3, .microbatches = 6});
  EXPECT_EQ(row_text(schedule, 0), "0F0 0F1 0F2 0F3 0F4 0B0 0F5 0B1 0B2 0B3 0B4 0B5");
  EXPECT_EQ(row_text(schedule, 1), "1F0 1F1 1F2 1B0 1F3 1B1 1F4 1B2 1F5 1B3 1B4 1B5");
  EXPECT_EQ(row_text(schedule, 2), "2F0 2B0 2F1 2B1 2F2 2B2 2F3 2B3 2F4 2B4 2F5 2B5");
}

// 2211.05322: the longer warm-up hides the transfers of the steady state.
TEST(EagerOneFOneB, PaysTwoTransfersPerRankInAll) {
  const ScheduleParameters large{.ranks = 8, .microbatches = 32};
  const StageCosts unit{.forward = 1, .backward = 2, .transfer = 1};
  EXPECT_EQ(loop_makespan("1f1b", large, unit), 185);
  EXPECT_EQ(loop_makespan("eager-1f1b", large, unit), 131);
  const ScheduleParameters small{.ranks = 4, .microbatches = 16};
  const StageCosts half{.forward = 2, .backward = 4, .transfer = 1};
  EXPECT_EQ(loop_makespan("1f1b", small, half), 2 * 71);
  EXPECT_EQ(loop_makespan("eager-1f1b", small, half), 2 * 60);
}

TEST(EagerOneFOneB, HidesTransfersOfUpToHalfAnFAndB) {
  const ScheduleParameters parameters{.ranks = 4, .microbatches = 16};
  const StageCosts edge{.forward = 3, .backward = 5, .transfer = 4};
  const StageCosts beyond{.forward = 3, .backward = 5, .transfer = 5};
  EXPECT_EQ(claimed("eager-1f1b", parameters, edge), 19 * 8 + 6 * 4);
  EXPECT_EQ(loop_makespan("eager-1f1b", parameters, edge), 19 * 8 + 6 * 4);
  EXPECT_EQ(claimed("eager-1f1b", parameters, beyond), std::nullopt);
  EXPECT_GT(loop_makespan("eager-1f1b", parameters, beyond), 19 * 8 + 6 * 5);
}

TEST(Interleaved, OfOneChunkIsEagerOneFOneB) {
  const ScheduleParameters one{.ranks = 4, .microbatches = 9, .chunks = 1, .settings = {{"group", "4"}}};
  const Schedule interleaved = generated("interleaved-1f1b", one);
  const Schedule eager = generated("eager-1f1b", {.ranks = 4, .microbatches = 9});
  for (int r = 0; r < 4; ++r) EXPECT_EQ(row_text(interleaved, r), row_text(eager, r));
}

/// The forwards of a row, "chunk:microbatch".
std::string forwards(const Schedule& schedule, int rank) {
  std::string text;
  for (const Cell& cell : schedule.row(RankId(rank))) {
    const Action& action = cell.actions().front();
    if (action.kind != OpKind::forward) continue;
    text += std::to_string(action.subject / schedule.pipeline().ranks()) + ":" +
            std::to_string(action.microbatch) + " ";
  }
  return text;
}

// Llama 3 (2407.21783, section 3.3.2): depth-first takes groups of p microbatches, breadth-first all in one.
TEST(Interleaved, GroupsOfPAreDepthFirst) {
  const Schedule schedule = generated(
      "interleaved-1f1b", {.ranks = 2, .microbatches = 4, .chunks = 2, .settings = {{"group", "2"}}});
  EXPECT_EQ(forwards(schedule, 0), "0:0 0:1 1:0 1:1 0:2 0:3 1:2 1:3 ");
  EXPECT_EQ(schedule, generated("interleaved-1f1b", {.ranks = 2, .microbatches = 4, .chunks = 2}));
}

TEST(Interleaved, OneGroupRunsForwardBreadthFirst) {
  const ScheduleParameters parameters{.ranks = 2, .microbatches = 4, .chunks = 2};
  ScheduleParameters one_group = parameters;
  one_group.settings["group"] = "4";
  EXPECT_EQ(forwards(generated("interleaved-1f1b", one_group), 1),
            forwards(generated("looped-bfs", parameters), 1));
}

// JaxPP's KimiK2: one F more before the first B than PyTorch's and JaxPP's Interleaved1F1B on every rank.
TEST(KimiK2, RunsOneMoreForwardFirst) {
  const Schedule schedule = generated("kimi-k2", {.ranks = 2, .microbatches = 4, .chunks = 2});
  EXPECT_EQ(row_text(schedule, 0), "0F0 0F1 2F0 2F1 0F2 0F3 2B0 2F2 2B1 2F3 0B0 0B1 2B2 2B3 0B2 0B3");
  EXPECT_EQ(row_text(schedule, 1), "1F0 1F1 3F0 3F1 3B0 1F2 3B1 1F3 1B0 3F2 1B1 3F3 3B2 3B3 1B2 1B3");
}

// PyTorch's ScheduleLoopedBFS: the backward takes the chunks and the microbatches the other way round.
TEST(LoopedBfs, Order) {
  ScheduleParameters parameters{.ranks = 2, .microbatches = 3, .chunks = 2};
  EXPECT_EQ(row_text(generated("looped-bfs", parameters), 1),
            "1F0 1F1 1F2 3F0 3F1 3F2 3B2 3B1 3B0 1B2 1B1 1B0");
  parameters.settings["backward"] = "same";
  EXPECT_EQ(row_text(generated("looped-bfs", parameters), 1),
            "1F0 1F1 1F2 3F0 3F1 3F2 3B0 3B1 3B2 1B0 1B1 1B2");
}

// 2211.05953: m (F + B) + (p - 1)(F + B) / v in times of a rank's whole share, from p microbatches on.
TEST(LoopedBfs, BubbleShrinksWithTheChunks) {
  const ScheduleParameters parameters{.ranks = 4, .microbatches = 7, .chunks = 3};
  EXPECT_EQ(claimed("looped-bfs", parameters, {}), 7 * 3 * 3 + 3 * 3);
  // With fewer a chunk's turn waits for the first microbatch to come round: 4 (F + B) for two turns.
  EXPECT_EQ(claimed("looped-bfs", {.ranks = 4, .microbatches = 2, .chunks = 3}, {}),
            2 * 4 * 3 + 2 * 3 + 3 * 3);
}

TEST(ForwardOnly, KeepsTheOrderThatIsAskedFor) {
  ScheduleParameters parameters{.ranks = 2, .microbatches = 4, .chunks = 2};
  EXPECT_EQ(row_text(generated("forward-only", parameters), 0), "0F0 0F1 0F2 0F3 2F0 2F1 2F2 2F3");
  parameters.settings["order"] = "depth-first";
  EXPECT_EQ(row_text(generated("forward-only", parameters), 0), "0F0 0F1 2F0 2F1 0F2 0F3 2F2 2F3");
}

TEST(ForwardOnly, BubbleIsWhatItsForwardsLeave) {
  const ScheduleInfo& info = **find_schedule("forward-only");
  EXPECT_EQ(closed_form_bubble(info, {.ranks = 4, .microbatches = 6}, {.forward = 5}), 3 * 5);
}

// 2406.03488, in the notation stage F microbatch.slice; rank 0 keeps p + k - 1 slices.
TEST(SeqOneFOneB, Order) {
  const Schedule schedule = generated("seq-1f1b", {.ranks = 2, .microbatches = 2, .slices = 2});
  EXPECT_EQ(row_text(schedule, 0), "0F0.0 0F0.1 0F1.0 0B0.1 0F1.1 0B0.0 0B1.1 0B1.0");
  EXPECT_EQ(row_text(schedule, 1), "1F0.0 1F0.1 1B0.1 1F1.0 1B0.0 1F1.1 1B1.1 1B1.0");
}

TEST(SeqOneFOneB, OfOneSliceIsOneFOneB) {
  const Schedule sliced = generated("seq-1f1b", {.ranks = 4, .microbatches = 7});
  EXPECT_EQ(sliced, generated("1f1b", {.ranks = 4, .microbatches = 7}));
}

// 2406.03488: the bubble is (p - 1)(F + B) / k of a whole microbatch, (p - 1)(F + B) of a slice.
TEST(SeqOneFOneB, BubbleShrinksWithTheSlices) {
  const ScheduleInfo& info = **find_schedule("seq-1f1b");
  const ScheduleParameters parameters{.ranks = 4, .microbatches = 8, .slices = 4};
  EXPECT_EQ(closed_form_bubble(info, parameters, {.forward = 2, .backward = 5}), 3 * 7);
  EXPECT_EQ(info.forms.peak_live_activations(parameters, RankId(0)), 4 + 4 - 1);
}

// 2102.07988: slices follow each other through the ranks as microbatches do.
TEST(TeraPipe, Order) {
  ScheduleParameters parameters{.ranks = 2, .microbatches = 2, .slices = 2};
  EXPECT_EQ(row_text(generated("terapipe", parameters), 1),
            "1F0.0 1F0.1 1F1.0 1F1.1 1B0.1 1B0.0 1B1.1 1B1.0");
  parameters.settings["backward"] = "reversed";
  EXPECT_EQ(row_text(generated("terapipe", parameters), 0),
            "0F0.0 0F0.1 0F1.0 0F1.1 0B1.1 0B1.0 0B0.1 0B0.0");
}

TEST(TeraPipe, OfOneSliceIsGPipe) {
  EXPECT_EQ(generated("terapipe", {.ranks = 4, .microbatches = 5}),
            generated("gpipe", {.ranks = 4, .microbatches = 5}));
}

// The authors' GroupBuildingBlockScheduler(device_num=2, micro_num=4, chunk_num=2, group_size=2).
TEST(GroupInterleaved, Order) {
  const Schedule schedule = generated("group-interleaved", {.ranks = 2, .microbatches = 4, .chunks = 2});
  EXPECT_EQ(
      row_text(schedule, 0),
      "0F0 0F1 2F0 2F1 2I0 2W0 0F2 2I1 2W1 0F3 0I0 0W0 2F2 0I1 0W1 2F3 2I2 2W2 2I3 2W3 0I2 0W2 0I3 0W3");
  EXPECT_EQ(
      row_text(schedule, 1),
      "1F0 1F1 3F0 3I0 3W0 3F1 3I1 3W1 1F2 1I0 1W0 1F3 1I1 1W1 3F2 3I2 3W2 3F3 3I3 3W3 1I2 1W2 1I3 1W3");
}

/// Bubble at F = I = W = 1, B = 2, and the peak of rank 0.
std::pair<Nanoseconds, int> figures(int p, int group, int chunks, const std::string& backward = "split") {
  const ScheduleParameters parameters{.ranks = p,
                                      .microbatches = 4 * p,
                                      .chunks = chunks,
                                      .settings = {{"group", std::to_string(group)}, {"backward", backward}}};
  const Schedule schedule = generated("group-interleaved", parameters);
  const Nanoseconds time = test::step_time(schedule, test::cost_table({})).makespan;
  EXPECT_EQ(claimed("group-interleaved", parameters, {}).value_or(time), time);
  return {time - Nanoseconds{3} * 4 * p * chunks, test::peak_live_activations(schedule, RankId(0))};
}

// 2503.01328: groups of p hold v p chunks, groups of p / 2 hold (v + 1) p / 2, for a larger bubble.
TEST(GroupInterleaved, BubblesAndPeaks) {
  EXPECT_EQ(figures(4, 4, 2), std::pair(Nanoseconds{6}, 8));
  EXPECT_EQ(figures(4, 4, 4), std::pair(Nanoseconds{6}, 16));
  EXPECT_EQ(figures(4, 2, 2), std::pair(Nanoseconds{8}, 6));
  EXPECT_EQ(figures(4, 2, 3), std::pair(Nanoseconds{10}, 8));
  EXPECT_EQ(figures(4, 2, 4), std::pair(Nanoseconds{12}, 10));
  EXPECT_EQ(figures(8, 8, 2), std::pair(Nanoseconds{14}, 16));
  EXPECT_EQ(figures(8, 4, 2), std::pair(Nanoseconds{18}, 12));
  EXPECT_EQ(figures(8, 4, 3), std::pair(Nanoseconds{22}, 16));
  EXPECT_EQ(figures(8, 4, 4), std::pair(Nanoseconds{26}, 20));
}

// Interleaved 1F1B has this bubble too, with 11 chunks on rank 0 in place of 8.
TEST(GroupInterleaved, FusedBackwardHasTheBubbleOfInterleavedOneFOneB) {
  EXPECT_EQ(figures(4, 4, 2, "fused"), std::pair(Nanoseconds{9}, 8));
  EXPECT_EQ(figures(8, 8, 2, "fused"), std::pair(Nanoseconds{21}, 16));
}

TEST(GroupInterleaved, ClaimsNoTimeWhereTheSteadyStateWaits) {
  const ScheduleParameters half{
      .ranks = 4, .microbatches = 16, .chunks = 2, .settings = {{"group", "2"}, {"backward", "fused"}}};
  EXPECT_EQ(claimed("group-interleaved", half, {}), std::nullopt);
  EXPECT_EQ(claimed("group-interleaved", {.ranks = 4, .microbatches = 15, .chunks = 2}, {}), std::nullopt);
}

TEST(GroupInterleaved, GroupsHoldHalfOfTheRanksToAll) {
  const auto refused =
      generate("group-interleaved", {.ranks = 5, .microbatches = 8, .settings = {{"group", "2"}}});
  EXPECT_EQ(refused.error().message,
            "group-interleaved: group must be a whole number in [3, 5], found \"2\"");
}

}  // namespace
}  // namespace ppsim
