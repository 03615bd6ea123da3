#include <gtest/gtest.h>
#include <cmath>

#include "support/closed_forms.hpp"

// The bubble rates of Qi et al., Zero bubble pipeline parallelism, ICLR 2024 (arXiv 2401.10241), tables 5 and
// 6: the profiled times of table 6 give the rates of table 5. Their cost is the span of the longest rank,
// their rate (cost - m (TF + TB + TW)) / cost, rounded to four decimals.

namespace ppsim {
namespace {

struct Row {
  const char* model;
  int microbatches;
  double forward_ms, input_ms, weight_ms, transfer_ms;
  double rate_1f1b, rate_h1, rate_h2;
};

constexpr int kRanks = 8;
constexpr Row kRows[] = {
    {"1.5B", 24, 18.522, 18.086, 9.337, 0.601, 0.2431, 0.1585, 0.1083},
    {"1.5B", 64, 18.546, 18.097, 9.321, 0.762, 0.1240, 0.0674, 0.0444},
    {"6.2B", 24, 29.718, 29.444, 19.927, 0.527, 0.2347, 0.1323, 0.0698},
    {"6.2B", 64, 29.935, 29.621, 19.388, 0.535, 0.1091, 0.0554, 0.0294},
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

/// Bubble rates by the earliest times of the order and by a simulated run of the lowered Program.
std::vector<double> rates(const char* name, const Row& row) {
  const StageCosts costs = costs_of(row);
  const CostTable table = test::cost_table(costs);
  const Schedule schedule = test::generated(name, {.ranks = kRanks, .microbatches = row.microbatches});
  const double work = static_cast<double>(row.microbatches * (costs.forward + costs.backward));
  std::vector<double> result;
  for (const test::StepTime& time :
       {test::step_time(schedule, table),
        test::simulated_step_time(schedule, {.order = IssueOrder::timed}, table)}) {
    const auto span = static_cast<double>(time.span);
    result.push_back(std::round((span - work) / span * 1e4) / 1e4);
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

}  // namespace
}  // namespace ppsim
