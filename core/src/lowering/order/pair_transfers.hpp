#pragma once

#include "lowering/lines.hpp"

namespace ppsim::lowering {

/// Groups two transfers between the same two ranks that are adjacent at both ends, neither depending on the
/// other; each transfer joins one pair at most, the first that it can.
void pair_transfers(const Pipeline& pipeline, LineRows& rows);

}  // namespace ppsim::lowering
