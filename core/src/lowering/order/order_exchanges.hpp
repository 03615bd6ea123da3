#pragma once

#include "lowering/cell_rows.hpp"

namespace ppsim::lowering {

/// Makes the rows bound the memory of lent activations in every timing: the SEND_A and RECV_A of a rank run
/// one after another in the order of its row, and on the rank that owns the activations a RECV_A starts after
/// the computation before it, and the computation behind a SEND_A after that.
void order_exchanges(const Pipeline& pipeline, CellRows& rows);

}  // namespace ppsim::lowering
