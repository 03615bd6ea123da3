#pragma once

#include <optional>
#include <vector>

#include "ppsim/core/ir/ids.hpp"
#include "ppsim/core/ir/units.hpp"
#include "ppsim/planner/kineto.hpp"

namespace ppsim::planner {

/// offset(earlier) - offset(later) <= slack, because something at `earlier` came before something at `later`
/// that is so much behind it where clocks are as they were.
struct ClockBound {
  RankId earlier;
  RankId later;
  Nanoseconds slack = 0;
};

/// The middle of all offsets that keep to the bounds, where rank 0 has none; the middles keep to them, too,
/// to the nanosecond. Where messages go one way alone, the bound itself, without an error. Nothing: no
/// offsets do.
[[nodiscard]] std::optional<IdVector<RankId, RankClock>> middle_offsets(
    int ranks, const std::vector<ClockBound>& bounds);

}  // namespace ppsim::planner
