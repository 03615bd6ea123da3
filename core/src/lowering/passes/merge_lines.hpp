#pragma once

#include "lowering/lines.hpp"
#include "lowering/step_rows.hpp"
#include "pass_walk.hpp"

namespace ppsim::lowering {

/// What a TransferInserter makes of the walk, in the order of its times and, among equals, of the walk. Rows
/// are made apart, by all processors: each is merged of its steps and of those of the ranks that send to it.
[[nodiscard]] LineRows merged_lines(const Pipeline& pipeline, const StepRows& rows, const PassTimes& times);

}  // namespace ppsim::lowering
