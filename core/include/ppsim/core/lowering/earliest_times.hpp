#pragma once

#include <vector>

#include "ppsim/core/ir/error.hpp"
#include "ppsim/core/ir/schedule.hpp"
#include "ppsim/core/ir/tables.hpp"

namespace ppsim {

/// Order-driven times of a Schedule: a cell starts at max(rank free, producer's end, plus the transfer's cost
/// where the producer is on another rank); transfers do not contend.
struct EarliestTimes {
  /// A cell of a row in the order of a fixed walk: sweeps over the ranks, ascending, each retiring at most
  /// one ready head cell per sweep.
  struct Item {
    RankId rank;
    std::int32_t position = 0;
    Nanoseconds start = 0;
    Nanoseconds end = 0;
  };
  std::vector<Item> walk;  ///< every non-idle cell once
  Nanoseconds makespan = 0;
};

/// Errors: deadlock naming the rows that wait for each other.
[[nodiscard]] Expected<EarliestTimes> earliest_times(const Schedule& schedule, const CostTable& costs);

}  // namespace ppsim
