#pragma once

#include "lowering/step_rows.hpp"
#include "ppsim/core/earliest_times.hpp"

namespace ppsim::lowering {

/// The round-robin walk: sweeps over the ranks, ascending, each rank retiring at most one ready head step per
/// sweep. A collective, and SEND_A with its RECV_A, is retired on all its members at once, so that the walk
/// is one linear order of everything. Collectives, SEND_A, RECV_A and OPT let the steps behind them pass
/// until they are ready.
///
/// Times: a compute step starts when its rank has computed the one before and its dependencies hold; anything
/// else when its dependencies hold, and not before the compute step that stands before it has started.
/// Without costs all are 0. Errors: deadlock naming the rows that wait for each other.
[[nodiscard]] Expected<EarliestTimes> walk(const Pipeline& pipeline, const StepRows& rows,
                                           const CostTable* costs);

}  // namespace ppsim::lowering
