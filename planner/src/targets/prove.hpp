#pragma once

#include "ppsim/planner/targets.hpp"

namespace ppsim::planner {

/// Errors: deadlock, or ill_formed for a mismatch, with the culprits.
[[nodiscard]] Expected<void> prove_for(const Target& target, const Program& program);

}  // namespace ppsim::planner
