#include <gtest/gtest.h>
#include <cmath>

#include "support/closed_forms.hpp"

// The bubble rates of Qi et al., Zero bubble pipeline parallelism, ICLR 2024 (arXiv 2401.10241), tables 5 and
// 6: the profiled times of table 6 give the rates of table 5. Their cost is the span of the longest rank,
// their rate (cost - m (TF + TB + TW)) / cost, rounded to four decimals. ZB-1p and ZB-2p are the greedy
// within the memory of p and 2p activations.

namespace ppsim {
namespace {

struct Row {
  const char* model;
  int microbatches;
  double forward_ms, input_ms, weight_ms, transfer_ms;
  double rate_1f1b;
  int chunks;  ///< of the interleaved 1F1B
  double rate_interleaved, rate_h1, rate_h2, rate_1p, rate_2p;
};

constexpr int kRanks = 8;
constexpr Row kRows[] = {
    {"1.5B", 24, 18.522, 18.086, 9.337, 0.601, 0.2431, 3, 0.1055, 0.1585, 0.1083, 0.1585, 0.0433},
    {"1.5B", 64, 18.546, 18.097, 9.321, 0.762, 0.1240, 3, 0.0443, 0.0674, 0.0444, 0.0674, 0.0026},
    {"6.2B", 24, 29.718, 29.444, 19.927, 0.527, 0.2347, 4, 0.0808, 0.1323, 0.0698, 0.1323, 0.0029},
    {"6.2B", 64, 29.935, 29.621, 19.388, 0.535, 0.1091, 4, 0.0320, 0.0554, 0.0294, 0.0554, 0.0010},
};

Nanoseconds to_ns(double ms) { return std::llround(ms * 1e6); }

StageCosts costs_of(const Row& row) {
  StageCosts costs;
  costs.forward = to_ns(row.forward_ms);
  costs.backward_input = to_ns(row.input_ms);
  costs.backward_weight = to_ns(row.weight_ms);
  costs.backward = costs.backward_input + costs.backward_weight;
  costs.transfer = to_ns(row.transfer_ms);
  return costs;
}

double rate_of(Nanoseconds cost, Nanoseconds work) {
  return std::round(static_cast<double>(cost - work) / static_cast<double>(cost) * 1e4) / 1e4;
}

Nanoseconds work_of(const Row& row) {
  const StageCosts costs = costs_of(row);
  return row.microbatches * (costs.forward + costs.backward);
}

/// Bubble rates by the earliest times of the order and by a simulated run of the lowered Program.
std::vector<double> rates(const char* name, const Row& row,
                          const std::map<std::string, std::string>& settings = {}) {
  const CostTable table = test::cost_table(costs_of(row));
  const Schedule schedule = test::generated(
      name, {.ranks = kRanks, .microbatches = row.microbatches, .settings = settings, .costs = table});
  std::vector<double> result;
  for (const test::StepTime& time :
       {test::step_time(schedule, table),
        test::simulated_step_time(schedule, {.order = IssueOrder::timed}, table)}) {
    result.push_back(rate_of(time.span, work_of(row)));
  }
  return result;
}

TEST(PublishedRates, OneFOneB) {
  for (const Row& row : kRows) {
    for (const double rate : rates("1f1b", row))
      EXPECT_DOUBLE_EQ(rate, row.rate_1f1b) << row.model << ' ' << row.microbatches;
  }
}

TEST(PublishedRates, ZbH1) {
  for (const Row& row : kRows) {
    for (const double rate : rates("zb-h1", row))
      EXPECT_DOUBLE_EQ(rate, row.rate_h1) << row.model << ' ' << row.microbatches;
  }
}

TEST(PublishedRates, ZbH2) {
  for (const Row& row : kRows) {
    for (const double rate : rates("zb-h2", row))
      EXPECT_DOUBLE_EQ(rate, row.rate_h2) << row.model << ' ' << row.microbatches;
  }
}

TEST(PublishedRates, Zb1p) {
  for (const Row& row : kRows) {
    for (const double rate : rates("zb-greedy", row, {{"memory_limit", "8"}}))
      EXPECT_DOUBLE_EQ(rate, row.rate_1p) << row.model << ' ' << row.microbatches;
  }
}

TEST(PublishedRates, Zb2p) {
  for (const Row& row : kRows) {
    for (const double rate : rates("zb-greedy", row, {{"memory_limit", "16"}}))
      EXPECT_DOUBLE_EQ(rate, row.rate_2p) << row.model << ' ' << row.microbatches;
  }
}

// W needs 32 of the 34 + 5 a s / h parts of an activation (table 1 of the paper): 37 percent in the 1.5B
// model, 43 in the 6.2B one. The rates are the same as with the half that is the default.
TEST(PublishedRates, Zb1pAnd2pWithTheActivationsOfTheModels) {
  for (const Row& row : kRows) {
    const char* share = std::string(row.model) == "1.5B" ? "37" : "43";
    for (const double rate : rates("zb-greedy", row, {{"memory_limit", "8"}, {"weight_share", share}}))
      EXPECT_DOUBLE_EQ(rate, row.rate_1p) << row.model << ' ' << row.microbatches;
    for (const double rate : rates("zb-greedy", row, {{"memory_limit", "16"}, {"weight_share", share}}))
      EXPECT_DOUBLE_EQ(rate, row.rate_2p) << row.model << ' ' << row.microbatches;
  }
}

// The published rates of the interleaved 1F1B are those of 2pv - 2 - p exposed transfers; the order of
// Megatron-LM exposes 2 (pv - 1), that is p more.
TEST(PublishedRates, InterleavedOneFOneBPaysPTransfersMoreThanPublished) {
  for (const Row& row : kRows) {
    const int v = row.chunks;
    StageCosts costs = costs_of(row);
    costs.forward /= v;
    costs.backward /= v;
    const Nanoseconds both = costs.forward + costs.backward;
    const Nanoseconds work = row.microbatches * v * both;
    const Nanoseconds published = work + (kRanks - 1) * both + (2 * kRanks * v - 2 - kRanks) * costs.transfer;
    EXPECT_DOUBLE_EQ(rate_of(published, work), row.rate_interleaved) << row.model << ' ' << row.microbatches;
    const Schedule schedule =
        test::generated("interleaved-1f1b", {.ranks = kRanks, .microbatches = row.microbatches, .chunks = v});
    EXPECT_EQ(test::step_time(schedule, test::cost_table(costs)).span, published + kRanks * costs.transfer)
        << row.model << ' ' << row.microbatches;
  }
}

}  // namespace
}  // namespace ppsim
