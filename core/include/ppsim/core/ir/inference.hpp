#pragma once

#include "ppsim/core/ir/program.hpp"

namespace ppsim {

/// Whether a rank computes weight gradients, by B or W; one of an inference Program does not.
[[nodiscard]] bool trains(const Program& program, RankId rank);
/// Whether any rank does.
[[nodiscard]] bool trains(const Program& program);

}  // namespace ppsim
