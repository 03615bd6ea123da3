#pragma once

#include "lowering/cell_rows.hpp"
#include "lowering/lines.hpp"
#include "ppsim/core/ir/error.hpp"
#include "ppsim/core/lowering/earliest_times.hpp"

namespace ppsim::lowering {

/// The lines that JaxPP 0.9.2 issues: the restrictions of one linear order of tasks and transfers to each
/// rank. A transfer follows the last task that starts, in the latencies of JaxPP, when its producer does;
/// transfers of one place come in the order of their first users. Updates come behind all tasks, in the order
/// of the walk.
/// Errors: bad_argument for actions that JaxPP does not have; deadlock.
/// Source: add_transfers of JaxPP 0.9.2.
[[nodiscard]] Expected<LineRows> order_as_jaxpp(const Pipeline& pipeline, const CellRows& rows,
                                                const EarliestTimes& walk);

}  // namespace ppsim::lowering
