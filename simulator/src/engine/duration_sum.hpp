#pragma once

#include "ppsim/simulator/engine/simulate.hpp"

namespace ppsim::simulator {

/// Errors: bad_argument when all durations together do not fit in 64 bits.
[[nodiscard]] Expected<void> check_sum(const CompiledProgram& program, const BoundCosts& costs);

}  // namespace ppsim::simulator
