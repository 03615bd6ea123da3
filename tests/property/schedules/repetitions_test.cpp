#include <gtest/gtest.h>

#include <cstdlib>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "ppsim/schedules/registry.hpp"
#include "support/draw_parameters.hpp"

namespace ppsim::test {
namespace {

class OrderOf : public testing::TestWithParam<ScheduleInfo> {};

/// A rank's row without what a microbatch does.
std::vector<Cell> row_without(const Schedule& schedule, RankId rank, int microbatch) {
  std::vector<Cell> row;
  for (const Cell& cell : schedule.row(rank)) {
    if (!cell.idle() && cell.actions().front().microbatch != microbatch) row.push_back(cell);
  }
  return row;
}

/// Queues that repeat from the first microbatch on rest on this: an order is what is left of that for one
/// more.
TEST_P(OrderOf, WithoutAMicrobatchIsThatOfOneLess) {
  for (int p = 1; p <= 9; ++p) {
    ScheduleParameters parameters{.ranks = p};
    const auto queues = GetParam().repetitions(parameters).queues;
    if (!queues || queues->from > 1) continue;
    parameters.slices = GetParam().has_slices ? 3 : 1;
    for (int m = 1; m <= 4 * p + 4; ++m) {
      parameters.microbatches = m;
      const Schedule schedule = generate(GetParam().name, parameters).value();
      parameters.microbatches = m + 1;
      const Schedule longer = generate(GetParam().name, parameters).value();
      for (int r = 0; r < p; ++r)
        EXPECT_EQ(row_without(schedule, RankId(r), -2), row_without(longer, RankId(r), m)) << p << " " << m;
    }
  }
}

/// Whether what stands between two places of a row comes again `distance` places later, for as many
/// microbatches later each time as there are in a number that divides the period.
bool comes_again(std::span<const Action> row, std::size_t distance, int period) {
  std::set<int> later;
  for (std::size_t i = 0; i + distance < row.size(); ++i) {
    const Action& now = row[i];
    const Action& then = row[i + distance];
    if (now.kind != then.kind || now.subject != then.subject || now.peer != then.peer) return false;
    if (now.kind != OpKind::optimizer) later.insert(std::abs(then.microbatch - now.microbatch));
  }
  return later.size() == 1 && period % *later.begin() == 0;
}

bool comes_again(std::span<const Action> row, int period) {
  for (std::size_t distance = 1; distance <= row.size() / 2; ++distance) {
    if (comes_again(row, distance, period)) return true;
  }
  return false;
}

/// Where no phase begins or ends; looped orders of two chunks have four.
constexpr std::pair<double, double> kSteady[] = {{0.3, 0.45}, {0.55, 0.7}};

TEST_P(OrderOf, RepeatsAfterAPeriod) {
  for (int p = 1; p <= 12; ++p) {
    const auto lists = GetParam().repetitions({.ranks = p}).lists;
    const auto schedule = generate(GetParam().name, {.ranks = p, .microbatches = 40 * p});
    if (!lists || !schedule) continue;
    for (int r = 0; r < p; ++r) {
      std::vector<Action> row;
      for (const Cell& cell : schedule->row(RankId(r))) {
        if (!cell.idle()) row.push_back(cell.actions().front());
      }
      for (const auto& [begin, end] : kSteady) {
        const auto place = [&](double share) {
          return static_cast<std::size_t>(share * static_cast<double>(row.size()));
        };
        const auto steady = std::span(row).subspan(place(begin), place(end) - place(begin));
        EXPECT_TRUE(comes_again(steady, lists->period)) << p << " ranks, rank " << r;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Registry, OrderOf,
                         testing::ValuesIn(registered_schedules().begin(), registered_schedules().end()),
                         schedule_test_name);

}  // namespace
}  // namespace ppsim::test
