#include "ppsim/schedules/slice_lengths.hpp"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>

#include "support/closed_forms.hpp"
#include "support/expect_forms.hpp"

// The dynamic programme for the lengths of slices against all ways to cut a sequence, and against a simulated
// pipeline.

namespace ppsim {
namespace {

using test::between;

/// Any times at all, by [prefix][length - 1].
std::vector<std::vector<int>> draw_times(int sequence) {
  const auto row =
      rc::gen::container<std::vector<int>>(static_cast<std::size_t>(sequence), rc::gen::inRange(0, 30));
  return *rc::gen::container<std::vector<std::vector<int>>>(static_cast<std::size_t>(sequence), row);
}

Nanoseconds time_of(const std::vector<int>& lengths, const SliceProblem& problem, const SliceCost& cost) {
  Nanoseconds sum = 0;
  Nanoseconds longest = 0;
  int prefix = 0;
  for (const int length : lengths) {
    sum += cost(length, prefix);
    longest = std::max(longest, cost(length, prefix));
    prefix += length;
  }
  return problem.microbatches * sum + (problem.ranks - 1) * longest;
}

/// The least time over all sets of boundaries.
Nanoseconds min_time(const SliceProblem& problem, const SliceCost& cost) {
  const int pieces = (problem.sequence + problem.granularity - 1) / problem.granularity;
  Nanoseconds least = -1;
  for (unsigned cuts = 0; cuts < 1U << (pieces - 1); ++cuts) {
    std::vector<int> lengths;
    int begin = 0;
    for (int piece = 1; piece <= pieces; ++piece) {
      if (piece < pieces && (cuts >> (piece - 1) & 1U) == 0) continue;
      const int end = std::min(piece * problem.granularity, problem.sequence);
      lengths.push_back(end - begin);
      begin = end;
    }
    if (problem.slices && lengths.size() != static_cast<std::size_t>(*problem.slices)) continue;
    const Nanoseconds time = time_of(lengths, problem, cost);
    if (least < 0 || time < least) least = time;
  }
  return least;
}

RC_GTEST_PROP(SliceLengths, AreTheBestOfAll, ()) {
  SliceProblem problem{.sequence = between(1, 10),
                       .granularity = between(1, 3),
                       .ranks = between(1, 12),
                       .microbatches = between(1, 3)};
  const int pieces = (problem.sequence + problem.granularity - 1) / problem.granularity;
  if (between(0, 1) == 0) problem.slices = between(1, pieces);
  const auto times = draw_times(problem.sequence);
  const SliceCost cost = [&](int length, int prefix) {
    return times[static_cast<std::size_t>(prefix)][static_cast<std::size_t>(length - 1)];
  };
  const auto best = best_slice_lengths(problem, cost).value();
  RC_ASSERT(best.time == min_time(problem, cost));
  RC_ASSERT(best.time == time_of(best.lengths, problem, cost));
  RC_ASSERT(!problem.slices || best.lengths.size() == static_cast<std::size_t>(*problem.slices));
}

// Jobs that pass equal machines in one order take the sum of their times and p - 1 times the longest.
RC_GTEST_PROP(SliceLengths, TimeIsThatOfTheirPipeline, ()) {
  const SliceProblem problem{
      .sequence = between(1, 40), .ranks = between(1, 6), .microbatches = between(1, 4)};
  const int fixed = between(1, 50);
  const SliceCost cost = [&](int length, int prefix) {
    return fixed + 4 * length + Nanoseconds{length} * (2 * prefix + length + 1) / 2;
  };
  const auto best = best_slice_lengths(problem, cost).value();
  const int slices = static_cast<int>(best.lengths.size());
  CostTable costs;
  int prefix = 0;
  for (int k = 0; k < slices; ++k) {
    const int length = best.lengths[static_cast<std::size_t>(k)];
    for (int s = 0; s < problem.ranks; ++s) {
      costs.set({OpKind::forward, s, -1, k}, cost(length, prefix));
      costs.set({OpKind::backward, s, -1, k}, 2 * cost(length, prefix));
    }
    prefix += length;
  }
  const Schedule schedule = test::generated(
      "terapipe", {.ranks = problem.ranks, .microbatches = problem.microbatches, .slices = slices});
  RC_ASSERT(test::step_time(schedule, costs).makespan == 3 * best.time);
  RC_ASSERT(test::simulated_step_time(schedule, {.order = IssueOrder::timed}, costs).makespan ==
            3 * best.time);
}

}  // namespace
}  // namespace ppsim
