#include "ppsim/core/ir/units.hpp"

#include <gtest/gtest.h>

#include <limits>

#include "ppsim/core/ir/overflow.hpp"

namespace ppsim {
namespace {

constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();

TEST(Units, SumsAndProductsUpTo64Bits) {
  EXPECT_EQ(checked_add(kMax - 1, 1), kMax);
  EXPECT_EQ(checked_multiply(kMax / 7, 7), kMax);
  EXPECT_THROW((void)checked_add(kMax, 1), Overflow);
  EXPECT_THROW((void)checked_multiply(kMax / 7 + 1, 7), Overflow);
}

TEST(Units, AnOverflowSaysWhatDidNotFit) {
  try {
    (void)checked_add(kMax, 2);
    FAIL();
  } catch (const Overflow& sum) {
    EXPECT_STREQ(sum.what(), "9223372036854775807 + 2");
  }
}

TEST(Units, RoundsToTheNearestUpTo64Bits) {
  EXPECT_EQ(checked_round(2.5), 3);
  EXPECT_EQ(checked_round(-2.4), -2);
  EXPECT_EQ(checked_round(0x1p62), std::int64_t{1} << 62);
  EXPECT_THROW((void)checked_round(0x1p63), Overflow);
  EXPECT_THROW((void)checked_round(-0x1p63), Overflow);
  EXPECT_THROW((void)checked_round(std::numeric_limits<double>::infinity()), Overflow);
  EXPECT_THROW((void)checked_round(std::numeric_limits<double>::quiet_NaN()), Overflow);
}

}  // namespace
}  // namespace ppsim
