#pragma once

#include "lowering/lines.hpp"
#include "ppsim/core/lowering/lowering.hpp"

namespace ppsim::lowering {

/// Sorts every row by (time, place in the walk).
/// Requires: rows with times, in the order of the walk.
void sort_by_time(LineRows& rows);

/// Every communication `after` the last compute line before it, and so after all of them: a process group of
/// PyTorch.
void order_by_issue(LineRows& rows);

/// Moves every arrival to `options.early` compute lines before its first user, `after` the compute line
/// before that place. A RECV that would overtake an earlier message of its channel pulls that one forward; a
/// RELOAD stays behind its OFFLOAD, an UNSHARD behind the RESHARD before it.
void place_arrivals(const Pipeline& pipeline, const LoweringOptions& options, LineRows& rows);

}  // namespace ppsim::lowering
