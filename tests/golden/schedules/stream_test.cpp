#include <gtest/gtest.h>

#include "support/grid_case.hpp"

// Schedules without a flush, and 1F1B with a sharded output layer. At unit costs the shards of the output
// layer take what stages take, so the bubble is 3 (p - 1) and live cells are the stages' and one shard's.

namespace ppsim {
namespace {

using test::GridCase;

std::vector<GridCase> stream_cases() {
  return {
      {"pipedream_p4_m8", "pipedream", {.ranks = 4, .microbatches = 8}, 33, {4, 3, 2, 1}},
      {"pipedream-2bw_p3_m8",
       "pipedream-2bw",
       {.ranks = 3, .microbatches = 8, .settings = {{"macrobatch", "3"}}},
       30,
       {3, 2, 1}},
      {"vocab-1_p4_m8", "vocab-1", {.ranks = 4, .microbatches = 8}, 57, {7, 6, 5, 4}},
      {"vocab-2_p4_m8", "vocab-2", {.ranks = 4, .microbatches = 8}, 57, {6, 5, 4, 3}},
  };
}

class StreamGrids : public testing::TestWithParam<GridCase> {};

TEST_P(StreamGrids, LooksAsDrawn) { test::expect_grid(GetParam()); }

INSTANTIATE_TEST_SUITE_P(UnitCosts, StreamGrids, testing::ValuesIn(stream_cases()), test::name_of);

}  // namespace
}  // namespace ppsim
