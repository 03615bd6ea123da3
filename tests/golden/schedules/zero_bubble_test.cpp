#include <gtest/gtest.h>

#include "support/grid_case.hpp"

// Zero-bubble schedules beyond ZB-H1 and ZB-H2, as a reader would draw them by hand.

namespace ppsim {
namespace {

using test::expect_grid;

TEST(ZeroBubbleGrids, InterleavedZbOfOneChunk) {
  expect_grid({"interleaved-zb_p4_m8_v1",
               "interleaved-zb",
               {.ranks = 4, .microbatches = 8, .chunks = 1},
               27,
               {4, 4, 4, 4}});
}

TEST(ZeroBubbleGrids, InterleavedZb) {
  expect_grid({"interleaved-zb_p4_m8_v2",
               "interleaved-zb",
               {.ranks = 4, .microbatches = 8, .chunks = 2},
               51,
               {8, 8, 8, 8}});
}

TEST(ZeroBubbleGrids, InterleavedZbOfEightRanks) {
  expect_grid({"interleaved-zb_p8_m16_v2",
               "interleaved-zb",
               {.ranks = 8, .microbatches = 16, .chunks = 2},
               103,
               std::vector<int>(8, 16)});
}

TEST(ZeroBubbleGrids, ZbV) {
  expect_grid({"zb-v_p4_m8", "zb-v", {.ranks = 4, .microbatches = 8}, 51, {8, 8, 8, 8}});
}

TEST(ZeroBubbleGrids, ZbVOfEightRanks) {
  expect_grid({"zb-v_p8_m16", "zb-v", {.ranks = 8, .microbatches = 16}, 103, std::vector<int>(8, 16)});
}

TEST(ZeroBubbleGrids, GreedyWithinTheMemoryOfOneFOneB) {
  expect_grid({"zb-greedy_p4_m8_1p",
               "zb-greedy",
               {.ranks = 4, .microbatches = 8, .settings = {{"memory_limit", "4"}}},
               27,
               {4, 4, 4, 4}});
}

TEST(ZeroBubbleGrids, GreedyWithinTwiceThatMemory) {
  expect_grid({"zb-greedy_p4_m8_2p", "zb-greedy", {.ranks = 4, .microbatches = 8}, 27, {8, 8, 8, 8}});
}

}  // namespace
}  // namespace ppsim
