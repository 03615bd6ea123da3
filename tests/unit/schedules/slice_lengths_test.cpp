#include "ppsim/schedules/slice_lengths.hpp"

#include <gtest/gtest.h>

#include <numeric>

namespace ppsim {
namespace {

std::string problem_refusal(const SliceProblem& problem) {
  const auto found = best_slice_lengths(problem, [](int, int) { return Nanoseconds{1}; });
  return found ? "" : found.error().message;
}

/// Tokens, and pairs of tokens of causal attention.
Nanoseconds causal(int length, int prefix) {
  return 100 + 10 * Nanoseconds{length} + Nanoseconds{length} * (2 * prefix + length + 1) / 2;
}

TEST(SliceLengths, OneRankWantsOneSlice) {
  EXPECT_EQ(best_slice_lengths({.sequence = 64}, causal)->lengths, std::vector<int>{64});
}

// 2102.07988: under causal attention equal times need shorter slices towards the end.
TEST(SliceLengths, LaterSlicesAreShorter) {
  const auto found = best_slice_lengths({.sequence = 64, .ranks = 8}, causal).value();
  EXPECT_GT(found.lengths.size(), 2U);
  EXPECT_TRUE(std::is_sorted(found.lengths.rbegin(), found.lengths.rend()));
  EXPECT_GT(found.lengths.front(), found.lengths.back());
  EXPECT_EQ(std::accumulate(found.lengths.begin(), found.lengths.end(), 0), 64);
}

TEST(SliceLengths, EqualTokensMakeEqualSlices) {
  const auto linear = [](int length, int) { return 10 + Nanoseconds{length}; };
  const SliceProblem problem{.sequence = 64, .granularity = 8, .ranks = 5, .slices = 4};
  EXPECT_EQ(*best_slice_lengths(problem, linear), (SliceLengths{{16, 16, 16, 16}, 4 * 26 + 4 * 26}));
}

TEST(SliceLengths, MoreMicrobatchesWantFewerSlices) {
  const auto one = best_slice_lengths({.sequence = 64, .ranks = 8}, causal).value();
  const auto many = best_slice_lengths({.sequence = 64, .ranks = 8, .microbatches = 50}, causal).value();
  EXPECT_LT(many.lengths.size(), one.lengths.size());
}

TEST(SliceLengths, TheLastPieceMayBeShorter) {
  const auto found = best_slice_lengths({.sequence = 10, .granularity = 4, .ranks = 3, .slices = 3}, causal);
  EXPECT_EQ(found->lengths, (std::vector<int>{4, 4, 2}));
}

TEST(SliceLengths, SaysWhatIsPossible) {
  EXPECT_EQ(problem_refusal({.sequence = 0}), "a sequence needs tokens");
  EXPECT_EQ(problem_refusal({.granularity = 0}), "granularity out of range");
  EXPECT_EQ(problem_refusal({.ranks = 0}), "ranks out of range");
  EXPECT_EQ(problem_refusal({.microbatches = 0}), "microbatches out of range");
  EXPECT_EQ(problem_refusal({.sequence = 4097, .granularity = 2}),
            "too many pieces: take a larger granularity");
  EXPECT_EQ(problem_refusal({.sequence = 8, .granularity = 4, .slices = 3}), "slices out of range");
}

}  // namespace
}  // namespace ppsim
