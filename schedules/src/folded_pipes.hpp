#pragma once

#include <optional>
#include <string_view>

#include "ppsim/schedules/registry.hpp"

namespace ppsim {

/// Microbatches that run down the ranks and back up, chunk after chunk (folded_placement): all of them from
/// rank 0 on, or half of them so and half from the last rank on.
struct FoldedPipes {
  int ranks = 1;
  int chunks = 1;      ///< stages per rank and direction; even where there is one direction
  int directions = 1;  ///< 1, or 2 where ranks and microbatches are even
  int microbatches = 1;
  bool doubled = false;  ///< two F in the place of one, where a unit has more microbatches than a pipe ranks
};

/// Ranks from where a pipe is entered to where it turns or meets the other: the microbatches of a unit.
[[nodiscard]] int reach(const FoldedPipes& pipes);

/// Microbatches that run in one direction.
[[nodiscard]] int per_direction(const FoldedPipes& pipes);

/// The rows of the pipes, merged as folded_pipes.cpp explains.
[[nodiscard]] Expected<Schedule> generate_folded(std::string_view name, const FoldedPipes& pipes);

/// What every rank computes.
[[nodiscard]] Nanoseconds folded_work(const FoldedPipes& pipes, const StageCosts& costs);

/// The makespan where no unit is doubled and no transfer takes time.
/// Source: found by computation; proved by test for every number of microbatches.
[[nodiscard]] std::optional<Nanoseconds> folded_makespan(const FoldedPipes& pipes, const StageCosts& costs);

/// The peak of live activations where no unit is doubled.
[[nodiscard]] int folded_peak(const FoldedPipes& pipes, RankId rank);

}  // namespace ppsim
