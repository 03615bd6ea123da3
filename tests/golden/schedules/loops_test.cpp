#include <gtest/gtest.h>

#include "support/grid_case.hpp"

// Schedules with looped chunks, Eager 1F1B, inference and slices, as a reader would draw them by hand.

namespace ppsim {
namespace {

using test::expect_grid;

TEST(LoopGrids, EagerOneFOneB) {
  expect_grid({"eager-1f1b_p4_m8", "eager-1f1b", {.ranks = 4, .microbatches = 8}, 33, {7, 5, 3, 1}});
}

TEST(LoopGrids, KimiK2) {
  expect_grid(
      {"kimi-k2_p4_m8_v2", "kimi-k2", {.ranks = 4, .microbatches = 8, .chunks = 2}, 57, {12, 10, 8, 6}});
}

TEST(LoopGrids, LoopedBfs) {
  expect_grid({"looped-bfs_p4_m8_v2",
               "looped-bfs",
               {.ranks = 4, .microbatches = 8, .chunks = 2},
               57,
               {16, 16, 16, 16}});
}

TEST(LoopGrids, ForwardOnly) {
  expect_grid({"forward-only_p4_m6", "forward-only", {.ranks = 4, .microbatches = 6}, 9, {1, 1, 1, 1}});
}

TEST(LoopGrids, ForwardOnlyDepthFirst) {
  expect_grid({"forward-only_p2_m4_v2_depth",
               "forward-only",
               {.ranks = 2, .microbatches = 4, .chunks = 2, .settings = {{"order", "depth-first"}}},
               9,
               {1, 1}});
}

TEST(LoopGrids, SeqOneFOneB) {
  expect_grid(
      {"seq-1f1b_p4_m4_k2", "seq-1f1b", {.ranks = 4, .microbatches = 4, .slices = 2}, 33, {5, 4, 3, 2}});
}

TEST(LoopGrids, TeraPipe) {
  expect_grid(
      {"terapipe_p4_m2_k3", "terapipe", {.ranks = 4, .microbatches = 2, .slices = 3}, 27, {6, 6, 6, 6}});
}

TEST(LoopGrids, GroupInterleaved) {
  expect_grid({"group-interleaved_p4_m8_v2",
               "group-interleaved",
               {.ranks = 4, .microbatches = 8, .chunks = 2},
               54,
               {8, 7, 6, 5}});
}

TEST(LoopGrids, GroupInterleavedOfHalfTheRanks) {
  expect_grid({"group-interleaved_p4_m8_v2_n2",
               "group-interleaved",
               {.ranks = 4, .microbatches = 8, .chunks = 2, .settings = {{"group", "2"}}},
               56,
               {6, 5, 4, 3}});
}

}  // namespace
}  // namespace ppsim
