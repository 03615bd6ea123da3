#include <gtest/gtest.h>

#include "support/grid_case.hpp"

// Schedules of two directions and of waves.

namespace ppsim {
namespace {

using test::GridCase;

std::vector<GridCase> bidirectional_cases() {
  const std::map<std::string, std::string> doubling = {{"concatenation", "forward-doubling"}};
  return {
      {"chimera_p4_m4", "chimera", {.ranks = 4, .microbatches = 4}, 16, {3, 4, 4, 3}},
      {"chimera_p4_m6", "chimera", {.ranks = 4, .microbatches = 6}, 25, {3, 4, 4, 3}},
      {"chimera_p4_m8_forward-doubling",
       "chimera",
       {.ranks = 4, .microbatches = 8, .settings = doubling},
       27,
       {7, 8, 8, 7}},
      {"dualpipe_p4_m8", "dualpipe", {.ranks = 4, .microbatches = 8}, 26, {5, 5, 5, 5}},
      {"dualpipe_p8_m20", "dualpipe", {.ranks = 8, .microbatches = 20}, 66, {9, 9, 9, 9, 9, 9, 9, 9}},
      {"dualpipe-v_p4_m8", "dualpipe-v", {.ranks = 4, .microbatches = 8}, 54, {9, 9, 9, 9}},
      {"hanayo_p4_m4_v2", "hanayo", {.ranks = 4, .microbatches = 4}, 36, {5, 6, 7, 8}},
      {"hanayo_p3_m3_v4", "hanayo", {.ranks = 3, .microbatches = 3, .chunks = 4}, 44, {10, 11, 12}},
      {"bitpipe_p4_m4", "bitpipe", {.ranks = 4, .microbatches = 4}, 28, {7, 8, 8, 7}},
  };
}

class BidirectionalGrids : public testing::TestWithParam<GridCase> {};

TEST_P(BidirectionalGrids, LooksAsDrawn) { test::expect_grid(GetParam()); }

INSTANTIATE_TEST_SUITE_P(UnitCosts, BidirectionalGrids, testing::ValuesIn(bidirectional_cases()),
                         test::name_of);

}  // namespace
}  // namespace ppsim
