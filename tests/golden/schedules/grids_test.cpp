#include <gtest/gtest.h>
#include <algorithm>

#include "support/closed_forms.hpp"
#include "support/golden.hpp"

// The schedules at unit costs: F=1, B=2, I=W=1 per stage, no transfer times. One file per case holds what a
// reader would draw by hand, with the figures of it.

namespace ppsim {
namespace {

struct Case {
  const char* file;
  const char* name;
  ScheduleParameters parameters;
  Nanoseconds makespan;
  std::vector<int> peaks;  ///< live (stage, microbatch) of each rank
};

std::vector<Case> cases() {
  return {
      {"gpipe_p4_m8", "gpipe", {.ranks = 4, .microbatches = 8}, 33, {8, 8, 8, 8}},
      {"1f1b_p4_m8", "1f1b", {.ranks = 4, .microbatches = 8}, 33, {4, 3, 2, 1}},
      {"1f1b_p4_m2", "1f1b", {.ranks = 4, .microbatches = 2}, 15, {2, 2, 2, 1}},
      {"1f1b_p8_m16", "1f1b", {.ranks = 8, .microbatches = 16}, 69, {8, 7, 6, 5, 4, 3, 2, 1}},
      {"interleaved-1f1b_p4_m8_v2",
       "interleaved-1f1b",
       {.ranks = 4, .microbatches = 8, .chunks = 2},
       57,
       {11, 9, 7, 5}},
      {"interleaved-1f1b_p4_m8_v4",
       "interleaved-1f1b",
       {.ranks = 4, .microbatches = 8, .chunks = 4},
       105,
       {19, 17, 15, 13}},
      {"interleaved-1f1b_p8_m16_v2",
       "interleaved-1f1b",
       {.ranks = 8, .microbatches = 16, .chunks = 2},
       117,
       {23, 21, 19, 17, 15, 13, 11, 9}},
      {"zb-h1_p4_m8", "zb-h1", {.ranks = 4, .microbatches = 8}, 27, {4, 4, 4, 4}},
      {"zb-h2_p4_m8", "zb-h2", {.ranks = 4, .microbatches = 8}, 27, {7, 7, 7, 7}},
  };
}

class Grids : public testing::TestWithParam<Case> {};

TEST_P(Grids, LooksAsDrawn) {
  const Case& c = GetParam();
  const StageCosts costs{.forward = 1, .backward = 2, .backward_input = 1, .backward_weight = 1};
  const Schedule schedule = test::generated(c.name, c.parameters);
  EXPECT_EQ(test::step_time(schedule, test::cost_table(costs)).makespan, c.makespan);
  for (int r = 0; r < c.parameters.ranks; ++r) {
    EXPECT_EQ(test::peak_live_activations(schedule, RankId(r)), c.peaks[static_cast<std::size_t>(r)])
        << "rank " << r;
  }
  EXPECT_EQ(test::golden_difference(std::string("schedules/") + c.file + ".txt",
                                    test::time_grid(schedule, test::cost_table(costs), 1)),
            "");
}

std::string name_of(const testing::TestParamInfo<Case>& drawn) {
  std::string name = drawn.param.file;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(UnitCosts, Grids, testing::ValuesIn(cases()), name_of);

}  // namespace
}  // namespace ppsim
