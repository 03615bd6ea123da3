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

}  // namespace
}  // namespace ppsim
