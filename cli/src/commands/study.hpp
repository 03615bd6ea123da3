#pragma once

#include "command.hpp"

namespace ppsim::cli {

/// Worse than a baseline, beyond the tolerance.
inline constexpr int kRegression = 6;

void add_study(Command& program);

}  // namespace ppsim::cli
