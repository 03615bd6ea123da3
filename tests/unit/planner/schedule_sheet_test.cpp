#include "ppsim/planner/schedule_sheet.hpp"

#include <gtest/gtest.h>

namespace ppsim {
namespace {

ScheduleSheet sheet_of(std::string_view name) { return schedule_sheet(**find_schedule(name)).value(); }

// 4 ranks, 8 microbatches: Chimera holds p of them on its middle ranks (2107.06925, table 2), DualPipe p + 1
// on every rank (README of deepseek-ai/DualPipe), both over two copies of the model.
TEST(ScheduleSheet, AMicrobatchOfOneDirectionLeavesTheActivationsOfItsOwnStages) {
  EXPECT_EQ(sheet_of("1f1b").peak_activations, 4);
  EXPECT_EQ(sheet_of("chimera").peak_activations, 4);
  EXPECT_EQ(sheet_of("dualpipe").peak_activations, 5);
  EXPECT_EQ(sheet_of("dualpipe-v").peak_activations, 4.5);
}

TEST(ScheduleSheet, CountsTheCopiesOfTheParameters) {
  EXPECT_EQ(sheet_of("hanayo").parameter_copies, 1);
  EXPECT_EQ(sheet_of("chimera").parameter_copies, 2);
  EXPECT_EQ(sheet_of("bitpipe").parameter_copies, 2);
  EXPECT_EQ(sheet_of("dualpipe").parameter_copies, 2);
}

}  // namespace
}  // namespace ppsim
