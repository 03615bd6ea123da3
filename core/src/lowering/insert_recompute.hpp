#pragma once

#include "lowering/step_rows.hpp"

namespace ppsim::lowering {

/// R directly before every B and I, where the row does not hold it already.
void insert_recompute(const Pipeline& pipeline, StepRows& rows);

}  // namespace ppsim::lowering
