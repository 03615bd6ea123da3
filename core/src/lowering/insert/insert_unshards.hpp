#pragma once

#include "lowering/cell_rows.hpp"

namespace ppsim::lowering {

/// Before each compute cell: RESHARD of the gathered stages that are not among the next three distinct ones
/// of the rank (four where an overlapped pair brings the last two), then UNSHARD of the missing ones in the
/// order of need; RESHARD of the rest at the end of the row. Several RESHARDs in one place ascend, where
/// PyTorch takes them in the order of a Python set. Source: PyTorch `_add_unshard_reshard`,
/// torch/distributed/pipelining/schedules.py.
void insert_unshards(CellRows& rows);

}  // namespace ppsim::lowering
