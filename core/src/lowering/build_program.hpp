#pragma once

#include "lowering/lines.hpp"
#include "ppsim/core/lowering/lowering.hpp"

namespace ppsim::lowering {

/// Puts every communication on a communicator and makes a Program of the rows, which are used up.
[[nodiscard]] Expected<Program> build_program(const Pipeline& pipeline, const LoweringOptions& options,
                                              LineRows rows);

}  // namespace ppsim::lowering
