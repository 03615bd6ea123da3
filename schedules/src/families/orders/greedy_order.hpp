#pragma once

#include <cstdint>
#include <vector>

#include "ppsim/core/ir/op_kind.hpp"
#include "ppsim/core/ir/units.hpp"

namespace ppsim::schedules {

/// A chain of one stage per rank whose F, I and W are to be ordered within a memory limit.
struct GreedyProblem {
  /// Durations on one rank.
  struct Rank {
    Nanoseconds forward = 0;
    Nanoseconds input = 0;
    Nanoseconds weight = 0;
    Nanoseconds from_above = 0;  ///< transfer to this rank of what its F reads; 0 on the first
    Nanoseconds from_below = 0;  ///< of what its I reads; 0 on the last
  };
  std::vector<Rank> ranks;
  int microbatches = 1;
  /// Memory in hundredths of what F allocates: W frees `kept`, I the rest.
  std::int64_t limit = 100;
  std::int64_t kept = 100;
};

/// Choices that the greedy leaves open.
struct GreedyRules {
  bool short_warmup = true;     ///< before the first I only F that end by its arrival, else one more
  bool prefer_backward = true;  ///< a rank may let an F wait that would hold up its next I
  bool fill_gaps = true;        ///< a W fills even a gap that it outlasts but that costs no time
};

/// An order of every rank's actions; F, I and W each in ascending order of microbatches.
struct GreedyOrder {
  Nanoseconds span = 0;  ///< of the longest rank
  std::vector<std::vector<OpKind>> rows;
};

/// Microbatch by microbatch: first the F of all ranks, down the pipeline, then their I, up the pipeline. A W
/// goes where the rank would wait, or where the memory does not suffice without it.
/// Requires: limit >= 100, 0 <= kept <= 100.
/// Source: Qi et al., Zero bubble pipeline parallelism, ICLR 2024, section 3.1 and the authors' code.
[[nodiscard]] GreedyOrder greedy_order(const GreedyProblem& problem, const GreedyRules& rules);

}  // namespace ppsim::schedules
