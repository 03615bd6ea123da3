#pragma once

#include <cstdint>
#include <optional>

#include "lowering/cell_rows.hpp"
#include "ppsim/core/execution/large_vector.hpp"
#include "ppsim/core/ir/tables.hpp"

namespace ppsim::lowering {

/// When a cell runs, and in which sweep of walk() it retires.
struct PassTime {
  Nanoseconds start = 0;
  Nanoseconds end = 0;
  std::int32_t sweep = 0;
};

/// By place in the row; idle cells have none.
using PassTimes = IdVector<RankId, LargeVector<PassTime>>;

/// The times that walk() gives to rows of passes alone, as most large ones are. Their times and sweeps do not
/// depend on whose turn it is. So a few ranks at a time go as far as they can, while the data that they read
/// is in the cache: a sweep over many ranks waits for memory at every cell.
/// Nothing where only walk() has an answer: some cell is more than a pass, or the rows wait for each other.
[[nodiscard]] std::optional<PassTimes> walk_passes(const Pipeline& pipeline, const CellRows& rows,
                                                   const CostTable* costs);

}  // namespace ppsim::lowering
