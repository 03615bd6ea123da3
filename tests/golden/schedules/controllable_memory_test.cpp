#include <gtest/gtest.h>

#include "support/grid_case.hpp"

// The building blocks of Qi et al., Pipeline parallelism with controllable memory (arXiv 2405.15362),
// repeated and reordered.

namespace ppsim {
namespace {

using test::GridCase;

std::vector<GridCase> controllable_memory_cases() {
  return {
      {"v-half_p4_m8", "v-half", {.ranks = 4, .microbatches = 8}, 53, {6, 6, 6, 6}},
      {"v-min_p4_m8", "v-min", {.ranks = 4, .microbatches = 8}, 59, {4, 4, 4, 4}},
      {"1f1b-v_p4_m8", "1f1b-v", {.ranks = 4, .microbatches = 8}, 63, {6, 6, 6, 6}},
      {"v-adaptive_p4_m8_limit5",
       "v-adaptive",
       {.ranks = 4, .microbatches = 8, .settings = {{"memory_limit", "5"}}},
       56,
       {5, 5, 5, 5}},
  };
}

class ControllableMemoryGrids : public testing::TestWithParam<GridCase> {};

TEST_P(ControllableMemoryGrids, LooksAsDrawn) { test::expect_grid(GetParam()); }

INSTANTIATE_TEST_SUITE_P(UnitCosts, ControllableMemoryGrids, testing::ValuesIn(controllable_memory_cases()),
                         test::name_of);

}  // namespace
}  // namespace ppsim
