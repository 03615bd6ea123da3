#pragma once

#include <functional>
#include <vector>

#include "lowering/cell_rows.hpp"
#include "ppsim/core/lowering/earliest_times.hpp"

namespace ppsim::lowering {

/// The round-robin walk: sweeps over the ranks, ascending, each rank retiring at most one ready head cell per
/// sweep. A collective, and SEND_A with its RECV_A, is retired on all its members at once, so that the walk
/// is one linear order of everything. Collectives, SEND_A and RECV_A let the cells behind them pass until
/// they are ready. An OPT that waits for a REDUCE_GRAD or a norm fills idle time: it lets the cells after it
/// pass as long as there are any, unless one waits for an update or starts only when the OPT is over.
///
/// Times: a compute cell starts when its rank has computed the one before and its dependencies hold; anything
/// else when its dependencies hold, and, a collective between passes aside, not before the compute cell that
/// stands before it has started.
/// Without costs all are 0. Errors: deadlock naming the rows that wait for each other.
[[nodiscard]] Expected<EarliestTimes> walk(const Pipeline& pipeline, const CellRows& rows,
                                           const CostTable* costs);

using WalkItems = std::vector<EarliestTimes::Item>;

/// The same, which hands its items to `take` while it goes on, some thousands at a time.
[[nodiscard]] Expected<void> walk(const Pipeline& pipeline, const CellRows& rows, const CostTable* costs,
                                  const std::function<void(WalkItems)>& take);

}  // namespace ppsim::lowering
