#pragma once

#include "lowering/step_rows.hpp"
#include "ppsim/core/lowering/memory_saving.hpp"

namespace ppsim::lowering {

/// LOAD directly before every F of a first stage.
void insert_loads(const Pipeline& pipeline, StepRows& rows);

/// R directly before every B and I of the stages that recompute in full, where the row does not hold it
/// already.
void insert_recompute(const Pipeline& pipeline, const StageRecompute& recompute, StepRows& rows);

}  // namespace ppsim::lowering
