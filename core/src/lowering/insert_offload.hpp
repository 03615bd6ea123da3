#pragma once

#include "lowering/step_rows.hpp"

namespace ppsim::lowering {

/// OFFLOAD directly after every F whose B or I is not the next step of its rank, and RELOAD directly before
/// that B or I.
void insert_offload(const Pipeline& pipeline, StepRows& rows);

}  // namespace ppsim::lowering
