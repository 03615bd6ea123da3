#include <gtest/gtest.h>

#include "support/closed_forms.hpp"
#include "support/golden.hpp"
#include "support/row_text.hpp"

// BPipe, rows with their exchanges: what a grid of times does not show.

namespace ppsim {
namespace {

TEST(BPipe, RowsOfEightRanks) {
  const Schedule schedule = test::generated("bpipe", {.ranks = 8, .microbatches = 12});
  std::string text;
  for (int r = 0; r < 8; ++r) text += test::row_text(schedule, r) + '\n';
  EXPECT_EQ(test::golden_difference("schedules/bpipe_p8_m12.txt", text), "");
}

}  // namespace
}  // namespace ppsim
