#pragma once

#include "ppsim/core/execution/analyzed_program.hpp"
#include "ppsim/core/ir/error.hpp"

namespace ppsim::planner {

/// Errors: ill_formed with the broken rules.
[[nodiscard]] Expected<void> require_well_formed(const AnalyzedProgram& analyzed);

}  // namespace ppsim::planner
