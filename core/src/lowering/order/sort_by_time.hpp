#pragma once

#include "lowering/lines.hpp"

namespace ppsim::lowering {

/// Sorts every row by (time, place in the walk).
/// Requires: rows with times, in the order of the walk.
void sort_by_time(LineRows& rows);

}  // namespace ppsim::lowering
