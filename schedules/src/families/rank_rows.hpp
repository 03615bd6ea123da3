#pragma once

#include "ppsim/core/execution/rank_ranges.hpp"
#include "ppsim/schedules/registry.hpp"

namespace ppsim::schedules {

/// Calls add(rank) for every rank, which adds the row of that rank to a builder and touches no other: by all
/// processors where rows are long.
template <class Add>
void add_rows(const ScheduleParameters& parameters, const Add& add) {
  const std::size_t passes = 2 * as_size(parameters.ranks) * as_size(parameters.microbatches);
  const std::vector<RankRange> ranges = rank_ranges(parameters.ranks, passes);
  all_at_once(ranges.size(), [&](std::size_t i) {
    for (RankId rank = ranges[i].first; rank < ranges[i].last; rank = next(rank)) add(rank.value());
  });
}

}  // namespace ppsim::schedules
