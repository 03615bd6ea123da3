#include <gtest/gtest.h>

#include "support/closed_forms.hpp"
#include "support/finished_run.hpp"
#include "support/lowered.hpp"
#include "support/row_text.hpp"

namespace ppsim {
namespace {

using test::generated;
using test::row_text;
using test::step_time;

std::string greedy_refusal(const ScheduleParameters& parameters) {
  const auto schedule = generate("zb-greedy", parameters);
  return schedule ? "" : schedule.error().message;
}

CostTable costs_of(Nanoseconds forward, Nanoseconds input, Nanoseconds weight) {
  return test::cost_table(
      {.forward = forward, .backward_input = input, .backward_weight = weight, .transfer = 0});
}

// PyTorch, ScheduleInterleavedZeroBubble: the warm-up of rank 0 is (v - 1) p + p - 1 = 3, W at once; rank 1
// runs its W one I late.
TEST(InterleavedZb, RunsAsPyTorch) {
  const Schedule schedule = generated("interleaved-zb", {.ranks = 2, .microbatches = 2, .chunks = 2});
  EXPECT_EQ(row_text(schedule, 0), "0F0 0F1 2F0 2F1 2I0 2W0 2I1 2W1 0I0 0W0 0I1 0W1");
  EXPECT_EQ(row_text(schedule, 1), "1F0 1F1 3F0 3I0 3F1 3I1 3W0 1I0 3W1 1I1 1W0 1W1");
}

TEST(InterleavedZb, OfOneChunkIsZbH1) {
  for (const int m : {3, 4, 8, 9}) {
    const ScheduleParameters parameters{.ranks = 4, .microbatches = m, .chunks = 1};
    const Schedule h1 = generated("zb-h1", {.ranks = 4, .microbatches = m});
    for (int r = 0; r < 4; ++r) {
      EXPECT_EQ(row_text(generated("interleaved-zb", parameters), r), row_text(h1, r)) << m << ' ' << r;
    }
  }
}

// PyTorch refuses 5 microbatches on 2 ranks; the larger of two groups comes first.
TEST(InterleavedZb, TakesAnyNumberOfMicrobatches) {
  const Schedule schedule = generated("interleaved-zb", {.ranks = 2, .microbatches = 5, .chunks = 2});
  EXPECT_EQ(row_text(schedule, 0).substr(0, 39), "0F0 0F1 0F2 2F0 2F1 2I0 2W0 2F2 2I1 2W1");
}

// 2401.10241 has (p - 1)(F + I - W), over v in times of a rank, for F and I no shorter than W.
TEST(InterleavedZb, BubbleIsThatOfZbH1AsLongAsWIsShort) {
  const ScheduleInfo& info = **find_schedule("interleaved-zb");
  const ScheduleParameters parameters{.ranks = 4, .microbatches = 8, .chunks = 2};
  const auto bubble = [&](Nanoseconds f, Nanoseconds i, Nanoseconds w) {
    return closed_form_bubble(info, parameters, {.forward = f, .backward_input = i, .backward_weight = w});
  };
  EXPECT_EQ(bubble(3, 3, 2), 3 * (3 + 3 - 2));
  EXPECT_EQ(bubble(2, 3, 4), 3 * 3);
  EXPECT_EQ(bubble(4, 2, 3), 3 * 4);
}

TEST(InterleavedZb, FormIsSilentWhereItDoesNotHold) {
  const ScheduleInfo& info = **find_schedule("interleaved-zb");
  const StageCosts costs{.forward = 3, .backward_input = 3, .backward_weight = 2, .transfer = 1};
  EXPECT_EQ(info.forms.makespan({.ranks = 4, .microbatches = 8}, costs), 16 * 8 + 3 * 8 + 4);
  EXPECT_EQ(info.forms.makespan({.ranks = 4, .microbatches = 3}, {}), std::nullopt);
  EXPECT_EQ(info.forms.makespan({.ranks = 4, .microbatches = 4}, costs), std::nullopt);
  EXPECT_EQ(info.forms.makespan({.ranks = 4, .microbatches = 9}, costs), std::nullopt);
  StageCosts long_transfer = costs;
  long_transfer.transfer = 2;
  EXPECT_EQ(info.forms.makespan({.ranks = 4, .microbatches = 8}, long_transfer), std::nullopt);
}

// "Pipeline parallelism with controllable memory" (arXiv 2405.15362): no bubble where W + 2I >= 2F and
// W + 2F >= 2I. That is about orders made for such costs; the order made for F = I = W waits under them, and
// no longer for more microbatches.
TEST(ZbV, WaitsWhereOnlyTheConditionOfControllableMemoryHolds) {
  for (const int m : {7, 8, 20}) {
    const Schedule schedule = generated("zb-v", {.ranks = 4, .microbatches = m});
    EXPECT_EQ(step_time(schedule, costs_of(1, 1, 1)).span, m * 6);
    EXPECT_EQ(step_time(schedule, costs_of(5, 5, 4)).span, m * 28 + 2 * 3);
    EXPECT_EQ(step_time(schedule, costs_of(4, 4, 5)).span, m * 26 + 2);
    EXPECT_EQ(step_time(schedule, costs_of(8, 9, 8)).span, m * 50 + 2 * 3);
    EXPECT_EQ(step_time(schedule, costs_of(9, 8, 8)).span, m * 50 + 2 * 3);
  }
}

TEST(ZbV, FormHasABubbleUnlessAllActionsTakeAsLong) {
  const ScheduleInfo& info = **find_schedule("zb-v");
  const ScheduleParameters parameters{.ranks = 3, .microbatches = 5};
  for (int f = 1; f <= 4; ++f) {
    for (int i = 1; i <= 4; ++i) {
      for (int w = 1; w <= 4; ++w) {
        const StageCosts costs{.forward = f, .backward_input = i, .backward_weight = w};
        EXPECT_EQ(closed_form_bubble(info, parameters, costs) == 0, f == i && i == w) << costs;
      }
    }
  }
  EXPECT_EQ(info.forms.span({.ranks = 3, .microbatches = 4}, {}), std::nullopt);
  EXPECT_EQ(info.forms.span(parameters, {.transfer = 1}), std::nullopt);
}

// Authors' greedy 126, an integer programme 125: p = 4, m = 8, within 8 activations.
TEST(ZbGreedy, IsNoWorseThanTheAuthorsGreedy) {
  const CostTable costs = costs_of(5, 6, 4);
  const ScheduleParameters parameters{
      .ranks = 4, .microbatches = 8, .settings = {{"memory_limit", "8"}}, .costs = costs};
  EXPECT_EQ(step_time(generated("zb-greedy", parameters), costs).span, 126);
}

struct GreedyCase {
  const char* what;
  int ranks, microbatches;
  const char* memory_limit;
  StageCosts costs;
  Nanoseconds span;
};

// Small cases where only orders under one side of a rule are the shortest; the spans are those of the
// authors' code.
TEST(ZbGreedy, TriesBothSidesOfEveryRule) {
  const auto costs = [](Nanoseconds f, Nanoseconds i, Nanoseconds w, Nanoseconds c) {
    return StageCosts{.forward = f, .backward_input = i, .backward_weight = w, .transfer = c};
  };
  const GreedyCase cases[] = {
      {"F that end by the first I's arrival", 2, 4, "3", costs(9, 1, 3, 1), 57},
      {"one F more before the first I", 2, 3, "5", costs(9, 8, 8, 0), 76},
      {"an F waits for an I", 2, 5, "3", costs(8, 1, 3, 1), 62},
      {"no F waits for an I", 3, 4, "6", costs(9, 4, 6, 1), 88},
      {"W in every gap", 3, 6, "5", costs(4, 5, 3, 0), 76},
      {"W in gaps that cost time", 2, 3, "2", costs(2, 1, 7, 1), 33},
  };
  for (const GreedyCase& one : cases) {
    const CostTable table = test::cost_table(one.costs);
    const Schedule schedule = generated("zb-greedy", {.ranks = one.ranks,
                                                      .microbatches = one.microbatches,
                                                      .settings = {{"memory_limit", one.memory_limit}},
                                                      .costs = table});
    EXPECT_EQ(step_time(schedule, table).span, one.span) << one.what;
  }
}

/// The kinds of a row, one letter each.
std::string kinds(const Schedule& schedule, int rank) {
  std::string text;
  for (const Cell& cell : schedule.row(RankId(rank))) text += info(cell.actions().front().kind).text;
  return text;
}

// The rows are those of the authors' code.
TEST(ZbGreedy, OrdersAsTheAuthorsCode) {
  const StageCosts costs{.forward = 4, .backward_input = 5, .backward_weight = 1, .transfer = 2};
  const Schedule schedule = generated(
      "zb-greedy",
      {.ranks = 3, .microbatches = 9, .settings = {{"memory_limit", "6"}}, .costs = test::cost_table(costs)});
  EXPECT_EQ(kinds(schedule, 0), "FFFFFFIWFIWFIWFIWIWIWIWIWIW");
  EXPECT_EQ(kinds(schedule, 1), "FFFFIFIFIFIFIWWWWIFIWWWIWIW");
  EXPECT_EQ(kinds(schedule, 2), "FIFIFIFIFIFIFIFIFIWWWWWWWWW");
}

// The first I reaches rank 0 at 30, time for three F; a transfer of 10 to it leaves time for one more.
TEST(ZbGreedy, CountsTheTransfersOfBothDirections) {
  for (const CostClass& transfer :
       {CostClass{OpKind::send_forward, 0, 1}, CostClass{OpKind::send_backward, 1, 0}}) {
    CostTable costs = costs_of(10, 10, 10);
    const auto first_cells = [&] {
      return kinds(generated("zb-greedy", {.ranks = 2, .microbatches = 8, .costs = costs}), 0).substr(0, 5);
    };
    EXPECT_EQ(first_cells(), "FFFIF");
    costs.set(transfer, 10);
    EXPECT_EQ(first_cells(), "FFFFI");
  }
}

TEST(ZbGreedy, UsesTwoActivationsForEachRankByDefault) {
  const CostTable costs = costs_of(5, 6, 4);
  const ScheduleParameters parameters{.ranks = 4, .microbatches = 12, .costs = costs};
  ScheduleParameters limited = parameters;
  limited.settings["memory_limit"] = "8";
  EXPECT_EQ(generated("zb-greedy", parameters), generated("zb-greedy", limited));
  limited.settings["memory_limit"] = "6";
  EXPECT_FALSE(generated("zb-greedy", parameters) == generated("zb-greedy", limited));
}

TEST(ZbGreedy, OneActivationIsOneMicrobatchAtATime) {
  const ScheduleParameters parameters{.ranks = 2, .microbatches = 3, .settings = {{"memory_limit", "1"}}};
  const Schedule schedule = generated("zb-greedy", parameters);
  EXPECT_EQ(row_text(schedule, 0), "0F0 0I0 0W0 0F1 0I1 0W1 0F2 0I2 0W2");
  EXPECT_EQ(row_text(schedule, 1), "1F0 1I0 1W0 1F1 1I1 1W1 1F2 1I2 1W2");
}

TEST(ZbGreedy, ImpossibleLimitsAreRefused) {
  const auto with = [](const char* name, const char* value) {
    return greedy_refusal({.ranks = 4, .microbatches = 8, .settings = {{name, value}}});
  };
  EXPECT_EQ(with("memory_limit", "1"), "");
  EXPECT_EQ(with("memory_limit", "0"),
            "zb-greedy: memory_limit must be a whole number in [1, 16777216], found \"0\"");
  EXPECT_EQ(with("weight_share", "101"),
            "zb-greedy: weight_share must be a whole number in [0, 100], found \"101\"");
}

TEST(ZbGreedy, TimesThatDoNotFitAreRefused) {
  const Nanoseconds year = 31'536'000'000'000'000;
  EXPECT_EQ(greedy_refusal({.ranks = 4, .microbatches = 8, .costs = costs_of(year, year, year)}), "");
  EXPECT_EQ(greedy_refusal({.ranks = 4, .microbatches = 800, .costs = costs_of(year, year, year)}),
            "zb-greedy: costs of all actions must add up to less than 2^62 ns");
}

/// Rank 2 is slow forward, rank 1 far away from rank 2.
CostTable uneven_costs() {
  CostTable costs = costs_of(10, 10, 10);
  costs.set({OpKind::forward, 2}, 14);
  costs.set({OpKind::send_forward, 1, 2}, 7);
  costs.set({OpKind::send_backward, 2, 1}, 7);
  return costs;
}

TEST(ZbGreedy, FollowsTheCostsOfEachStageAndTransfer) {
  const ScheduleParameters even{.ranks = 4, .microbatches = 12, .costs = costs_of(10, 10, 10)};
  ScheduleParameters uneven = even;
  uneven.costs = uneven_costs();
  const Nanoseconds made_for_them = step_time(generated("zb-greedy", uneven), uneven_costs()).span;
  EXPECT_LT(made_for_them, step_time(generated("zb-greedy", even), uneven_costs()).span);
  EXPECT_GE(made_for_them, 12 * (14 + 10 + 10));
}

// M_B and M_W of the paper as bytes: what only I needs is gone after it.
TEST(ZbGreedy, SimulatedMemoryStaysWithinTheLimit) {
  constexpr int kLimit = 6;
  const CostTable costs = costs_of(5, 6, 4);
  SizeTable sizes;
  sizes.set({.kind = TensorKind::saved_for_input}, 60);
  sizes.set({.kind = TensorKind::saved_for_weight}, 40);
  const Schedule schedule =
      generated("zb-greedy", {.ranks = 4,
                              .microbatches = 16,
                              .settings = {{"memory_limit", std::to_string(kLimit)}, {"weight_share", "40"}},
                              .costs = costs});
  const test::FinishedRun run(test::lowered(schedule, {.order = IssueOrder::timed}, &costs), costs, sizes);
  Bytes most = 0;
  for (const RankMetrics& rank : run.metrics().ranks) most = std::max(most, rank.peak_bytes);
  EXPECT_LE(most, 100 * kLimit);
  EXPECT_GT(most, 100 * (kLimit - 1));
}

}  // namespace
}  // namespace ppsim
