#include <gtest/gtest.h>

#include "support/grid_case.hpp"

// The schedules of the spine. Each file holds what a reader would draw by hand.

namespace ppsim {
namespace {

using test::GridCase;

std::vector<GridCase> linear_cases() {
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

class Grids : public testing::TestWithParam<GridCase> {};

TEST_P(Grids, LooksAsDrawn) { test::expect_grid(GetParam()); }

INSTANTIATE_TEST_SUITE_P(UnitCosts, Grids, testing::ValuesIn(linear_cases()), test::name_of);

}  // namespace
}  // namespace ppsim
