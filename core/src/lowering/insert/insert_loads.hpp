#pragma once

#include "lowering/step_rows.hpp"

namespace ppsim::lowering {

/// LOAD directly before every F of a first stage.
void insert_loads(const Pipeline& pipeline, StepRows& rows);

}  // namespace ppsim::lowering
