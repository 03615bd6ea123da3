// Spreads of factors as text.

#include <gtest/gtest.h>

#include "ppsim/planner/effects/step_spread.hpp"

namespace ppsim {
namespace {

TEST(FactorSpread, ReadsShapesListsAndCorrelations) {
  EXPECT_EQ(factor_spread_from_text("list:1,1.5,2")->values, (std::vector<double>{1, 1.5, 2}));
  EXPECT_EQ(factor_spread_from_text("list:1,2:0.9")->correlation, 0.9);
  EXPECT_EQ(factor_spread_from_text("gamma:0.3")->deviation, 0.3);
}

TEST(FactorSpread, RefusesWhereANumberIsMissing) {
  for (const char* text : {"list:1,2,", "list:,1", "list:1,,2", "list:", "list:1,2,:0.9",
                           "list:1,2:", "normal:0.1:", "normal:", "gamma", ""}) {
    const auto read = factor_spread_from_text(text);
    EXPECT_FALSE(read) << text;
  }
}

}  // namespace
}  // namespace ppsim
