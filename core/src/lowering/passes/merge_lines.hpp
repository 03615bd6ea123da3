#pragma once

#include "lowering/lines.hpp"
#include "lowering/step_rows.hpp"
#include "pass_walk.hpp"

namespace ppsim::lowering {

/// The lines that a TransferInserter makes of the walk, ordered by its times and, at equal times, as the walk
/// has them. All processors make rows, each row by merging its steps and those of the ranks that send to it.
[[nodiscard]] LineRows merged_lines(const Pipeline& pipeline, const StepRows& rows, const PassTimes& times);

}  // namespace ppsim::lowering
