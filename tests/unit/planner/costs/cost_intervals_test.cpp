#include "ppsim/planner/costs/cost_intervals.hpp"

#include <gtest/gtest.h>

namespace ppsim::test {
namespace {

CostIntervals intervals(const std::string& text) { return parse_cost_intervals(text).value(); }

TEST(CostIntervals, AreReadWithTheDefaultsOfUnits) {
  const CostIntervals read = intervals("c=0..0.1,B=2*F+I+0.5,F=0.5..2");
  EXPECT_EQ(read.variables, (std::vector<CostVariable>{{"F", 500'000, 2'000'000}, {"c", 0, 100'000}}));
  EXPECT_EQ(read.costs.at("B"), (LinearCost{1'500'000, {{0, 2}}}));
  EXPECT_EQ(read.costs.at("FB"), (LinearCost{1'500'000, {{0, 3}}}));
  EXPECT_EQ(read.costs.at("W"), (LinearCost{1'000'000, {}}));
  const UnitCosts middle = middle_costs(read).costs;
  EXPECT_EQ(std::vector({middle.F, middle.B, middle.W, middle.FB, middle.c}),
            (std::vector{1.25, 4.0, 1.0, 5.25, 0.05}));
}

TEST(CostIntervals, OfEachStage) {
  const CostSpace space = stage_costs(intervals("F=1..2,I=1..2,c=0..1"), 2);
  const auto names = [&](const CostClass& key) {
    std::string result;
    for (const auto& [variable, coefficient] : space(key).coefficients)
      result += space.variables()[static_cast<std::size_t>(variable)].name + ' ';
    return result;
  };
  EXPECT_EQ(names({OpKind::forward, 1}), "F1 ");
  EXPECT_EQ(names({OpKind::backward, 0}), "I0 ");
  EXPECT_EQ(names({OpKind::overlap, 1, 0}), "I0 F1 ");
  EXPECT_EQ(names({OpKind::send_forward, 0, 1}), "c0 ");
}

TEST(CostIntervals, ASpreadIsRoundedOutwards) {
  CostTable table;
  table.set({OpKind::forward}, 1'000'000);
  table.set({OpKind::backward, 1}, 15);
  const CostSpace space = spread_costs(table, parse_spread("10%").value());
  EXPECT_EQ(space.variables(),
            (std::vector<CostVariable>{{"F", 900'000, 1'100'000}, {"B subject 1", 13, 17}}));
  EXPECT_EQ(spread_costs(table, 0).bounds(), (CostBounds{table, table}));
}

TEST(CostIntervals, RefusesWhatItCannotRead) {
  for (const char* text :
       {"", "F", "F=", "F=2..1", "F=1..", "F=..1", "F=1..2..3", "F=1,F=1", "X=1", "F=-1", "F=1e10", "B=W+X",
        "B=1.5*F", "B=2000*F", "F=B,B=F+W", "B=B", "F=1..2,", "F=nan"}) {
    const auto read = parse_cost_intervals(text);
    ASSERT_FALSE(read.has_value()) << text;
    EXPECT_EQ(read.error().code, ErrorCode::bad_argument);
    EXPECT_EQ(read.error().message, "a cost that cannot be read");
  }
  for (const char* text : {"", "10", "%", "-1%", "101%", "x%"}) EXPECT_FALSE(parse_spread(text)) << text;
  for (const char* text : {"", "12", "ms", "-1ms", "1h", "1e30s", "12 ms"})
    EXPECT_FALSE(parse_duration(text)) << text;
  EXPECT_EQ(parse_duration("12.5ms"), 12'500'000);
  EXPECT_EQ(parse_duration("1.5s"), 1'500'000'000);
  EXPECT_EQ(parse_duration("7ns"), 7);
}

}  // namespace
}  // namespace ppsim::test
