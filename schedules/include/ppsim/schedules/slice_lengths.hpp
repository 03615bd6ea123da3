#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "ppsim/core/ir/error.hpp"
#include "ppsim/core/ir/units.hpp"

namespace ppsim::schedules {

/// Time on one stage of a slice of `length` tokens that attends to `prefix` tokens before it.
using SliceCost = std::function<Nanoseconds(int length, int prefix)>;

/// The costs that the lengths of a sequence's slices balance.
struct SliceProblem {
  int sequence = 1;           ///< tokens
  int granularity = 1;        ///< slices begin at multiples of it
  int ranks = 1;              ///< stages of equal time
  int microbatches = 1;       ///< sequences that follow each other, cut alike
  std::optional<int> slices;  ///< exactly so many; empty: as many as are best
};

/// Lengths of the slices in their order, and the time that all of them take through all ranks.
struct SliceLengths {
  std::vector<int> lengths;
  Nanoseconds time = 0;

  friend bool operator==(const SliceLengths&, const SliceLengths&) = default;
};

/// The lengths with the least time m sum(t_i) + (p - 1) max(t_i), which is exact for slices that pass equal
/// stages one after another. Of several the one with the least sum; the same input gives the same lengths.
/// Errors: bad_argument for counts below 1, more slices than pieces of the granularity, or more than 2048
/// pieces.
/// Source: Li et al., TeraPipe, ICML 2021, section 3.3, for one microbatch: a dynamic programme for the least
/// sum under each bound on max(t_i). Deviation: the bounds fall, each to where it can change the result, in
/// place of a search over all of them in steps of epsilon.
[[nodiscard]] Expected<SliceLengths> best_slice_lengths(const SliceProblem& problem, const SliceCost& cost);

}  // namespace ppsim::schedules

namespace ppsim {
using schedules::best_slice_lengths;
using schedules::SliceCost;
using schedules::SliceLengths;
using schedules::SliceProblem;
}  // namespace ppsim
