#pragma once

#include "lowering/cell_rows.hpp"
#include "ppsim/core/lowering/earliest_times.hpp"
#include "ppsim/core/lowering/lowering.hpp"

namespace ppsim::lowering {

/// OFFLOAD and RELOAD of the activations that `options.offload` chooses, placed beside the computation, and
/// `after` that makes them bound memory: a RELOAD starts after a cell, the next cell that saves activations
/// after an OFFLOAD. Where the times of rows without copies are known, they decide how
/// early and how late, and as much of the choice stays as would delay a backward.
/// Requires: `costs` where there are times.
void insert_offload(const LoweringOptions& options, const EarliestTimes* times, const CostTable* costs,
                    CellRows& rows);

}  // namespace ppsim::lowering
