#pragma once

#include <string>

#include "ppsim/core/lowering/lowering.hpp"

namespace ppsim::test {

/// 1F1B of two stages on two ranks.
Schedule two_ranks();
/// Forward only.
Schedule forwards();

/// Why a schedule is not lowered; nothing where it is.
std::string refusal(const Schedule& schedule, const LoweringOptions& options);

/// The instructions of a rank that have an `after`, with it.
std::string after_text(const Program& program, int rank);

}  // namespace ppsim::test
