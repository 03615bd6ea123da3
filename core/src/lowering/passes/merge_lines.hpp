#pragma once

#include "lowering/cell_rows.hpp"
#include "lowering/lines.hpp"
#include "pass_walk.hpp"

namespace ppsim::lowering {

/// The lines that a TransferInserter makes of the walk, ordered by its times and, at equal times, as the walk
/// has them. All processors make rows, each row by merging its cells and those of the ranks that send to it.
[[nodiscard]] LineRows merged_lines(const Pipeline& pipeline, const CellRows& rows, const PassTimes& times);

}  // namespace ppsim::lowering
