#include "ppsim/planner/sweep.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "ppsim/core/io/torch_csv.hpp"
#include "ppsim/core/lowering/lowering.hpp"
#include "ppsim/schedules/registry.hpp"

namespace ppsim {
namespace {

std::shared_ptr<const Program> program_named(const char* name) {
  const auto schedule = generate(name, {.ranks = 4, .microbatches = 8});
  return std::make_shared<const Program>(lower(schedule.value(), {}).value());
}

std::vector<SweepPoint> points_of(std::size_t count) {
  std::vector<SweepPoint> points;
  const auto first = program_named("1f1b");
  const auto second = program_named("zb-h1");
  for (std::size_t i = 0; i < count; ++i)
    points.push_back({i % 2 == 0 ? first : second, unit_cost_table({.c = static_cast<double>(i) / 10})});
  return points;
}

TEST(SimulateMany, EveryPointIsSimulatedAsByItself) {
  const std::vector<SweepPoint> points = points_of(30);
  const auto times = simulate_many(points).value();
  ASSERT_EQ(times.size(), points.size());
  for (std::size_t i = 0; i < points.size(); ++i) {
    const auto run = simulate_program(*points[i].program, {}, points[i].costs).value();
    Nanoseconds last = 0;
    for (const Span& span : run->spans) last = std::max(last, span.end.time);
    EXPECT_EQ(times[i].makespan, last) << i;
  }
}

TEST(SimulateMany, ThreadsDoNotChangeTheResult) {
  const std::vector<SweepPoint> points = points_of(30);
  EXPECT_EQ(simulate_many(points, {.threads = 4}).value(), simulate_many(points).value());
}

TEST(SimulateMany, NamesTheFirstPointThatCannotRun) {
  std::vector<SweepPoint> points = points_of(3);
  const auto hangs = program_from_csv("0F0,0SEND_F0,0RECV_B0,0B0\n1B0,1RECV_F0,1F0,1SEND_B0\n", "hangs.csv",
                                      CsvDialect::torch, CommunicatorPolicy::per_edge);
  points[1].program = std::make_shared<const Program>(hangs.value());
  const auto times = simulate_many(points);
  ASSERT_FALSE(times.has_value());
  EXPECT_EQ(times.error().message.substr(0, 9), "point 1: ") << times.error();
}

TEST(SimulateMany, CostsThatDoNotFitAreAnErrorOfTheirPoint) {
  std::vector<SweepPoint> points = points_of(3);
  points[2].costs.set({.kind = OpKind::forward}, std::numeric_limits<Nanoseconds>::max() / 2);
  const auto times = simulate_many(points, {.threads = 2});
  ASSERT_FALSE(times.has_value());
  EXPECT_EQ(times.error().code, ErrorCode::bad_argument);
  EXPECT_EQ(times.error().message.substr(0, 9), "point 2: ") << times.error();
}

TEST(SimulateMany, GivesUpWhenStopped) {
  const std::vector<SweepPoint> points = points_of(3);
  EXPECT_FALSE(simulate_many(points, {.stopped = [] { return true; }}).has_value());
}

std::vector<Nanoseconds> multiples(Nanoseconds step, std::size_t count) {
  std::vector<Nanoseconds> values;
  for (std::size_t i = 0; i < count; ++i) values.push_back(step * static_cast<Nanoseconds>(i));
  return values;
}

TEST(SimulateSweep, EveryPointIsThatOfItsTable) {
  constexpr std::size_t kPoints = 150;
  const auto program = program_named("zb-h1");
  const CostTable base = unit_cost_table({.c = 0.25});
  const auto weights = multiples(10'000, kPoints);
  const auto last_forward = multiples(77'777, kPoints);
  const auto sends = multiples(5'000, kPoints);
  const std::vector<CostColumn> columns = {{{.kind = OpKind::backward_weight}, weights},
                                           {{.kind = OpKind::forward, .subject = 3}, last_forward},
                                           {{.kind = OpKind::send_forward, .subject = 1, .peer = 2}, sends}};
  const auto times = simulate_sweep({*program, base, columns}, {.threads = 3}).value();
  ASSERT_EQ(times.size(), kPoints);
  EXPECT_EQ(times, simulate_sweep({*program, base, columns}).value());
  std::vector<SweepPoint> points;
  for (std::size_t i = 0; i < kPoints; ++i) {
    points.push_back({program, base});
    for (const CostColumn& column : columns) points.back().costs.set(column.key, column.durations[i]);
  }
  const auto each = simulate_many(points).value();
  for (std::size_t i = 0; i < kPoints; ++i) {
    const PointTimes expected = {each[i].makespan, rank_span(each[i]), ideal_time(each[i]),
                                 bubble_fraction(each[i]), bubble_fraction_span(each[i])};
    EXPECT_EQ(times[i], expected) << i;
  }
}

TEST(SimulateSweep, AColumnOfAKindGoesBeforeAStageOfTheTable) {
  const auto program = program_named("1f1b");
  CostTable base = unit_cost_table({});
  base.set({.kind = OpKind::forward, .subject = 2}, 1'000'000'000);
  const std::vector<Nanoseconds> forwards = {1'000'000};
  const std::vector<CostColumn> columns = {{{.kind = OpKind::forward}, forwards}};
  EXPECT_EQ(simulate_sweep({*program, base, columns}).value()[0].makespan, (8 + 3) * 3'000'000);
}

TEST(SimulateSweep, NamesADurationBelowZeroAndDurationsThatDoNotFit) {
  const auto program = program_named("1f1b");
  const CostTable base;
  std::vector<Nanoseconds> forwards = {1, 2, -3};
  const std::vector<CostColumn> columns = {{{.kind = OpKind::forward}, forwards}};
  const auto below = simulate_sweep({*program, base, columns});
  ASSERT_FALSE(below.has_value());
  EXPECT_EQ(below.error().message.substr(0, 9), "point 2: ") << below.error();
  forwards[2] = std::numeric_limits<Nanoseconds>::max() / 2;
  EXPECT_FALSE(simulate_sweep({*program, base, columns}).has_value());
}

TEST(SimulateSweep, GivesUpWhenStopped) {
  const auto program = program_named("1f1b");
  const std::vector<Nanoseconds> forwards = {1};
  const std::vector<CostColumn> columns = {{{.kind = OpKind::forward}, forwards}};
  const CostTable base;
  EXPECT_FALSE(simulate_sweep({*program, base, columns}, {.stopped = [] { return true; }}).has_value());
  EXPECT_TRUE(simulate_sweep({*program, base, {}}).value().empty());
}

}  // namespace
}  // namespace ppsim
