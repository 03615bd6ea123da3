#pragma once

#include <optional>
#include <string_view>

#include "ppsim/schedules/registry.hpp"

namespace ppsim::schedules {

/// Microbatches that run down the ranks and back up, chunk after chunk (folded_placement): all of them from
/// rank 0 on, or half of them so and half from the last rank on.
struct FoldedPipes {
  int ranks = 1;
  int chunks = 1;      ///< stages per rank and direction; even where there is one direction
  int directions = 1;  ///< 1, or 2 where ranks and microbatches are even
  int microbatches = 1;
  /// Two F in the place of one, in units of up to 2 reach microbatches, as long as more than a reach are
  /// left. For pipes of two stages per rank.
  bool doubled = false;
};

/// Ranks from where a pipe is entered to where it turns or meets the other: the microbatches of a unit.
[[nodiscard]] int reach(const FoldedPipes& pipes);

/// Microbatches that run in one direction.
[[nodiscard]] int per_direction(const FoldedPipes& pipes);

/// The rows of the pipes, merged as folded_pipes.cpp explains.
[[nodiscard]] Expected<Schedule> generate_folded(std::string_view name, const FoldedPipes& pipes);

/// The computation of every rank.
[[nodiscard]] Nanoseconds folded_work(const FoldedPipes& pipes, const StageCosts& costs);

/// Whether there are units of two F in the place of one.
[[nodiscard]] bool has_doubled_units(const FoldedPipes& pipes);

/// The makespan for every number of microbatches, nothing where transfers take time.
/// Requires: !has_doubled_units(pipes).
/// Source: found by computation and held by tests.
[[nodiscard]] std::optional<Nanoseconds> folded_makespan(const FoldedPipes& pipes, const StageCosts& costs);

/// The peak of live activations. Requires: !has_doubled_units(pipes).
[[nodiscard]] int folded_peak(const FoldedPipes& pipes, RankId rank);

}  // namespace ppsim::schedules
