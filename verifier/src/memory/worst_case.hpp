#pragma once

#include <optional>
#include <span>
#include <vector>

#include "limits.hpp"
#include "ppsim/verifier/memory/memory.hpp"

namespace ppsim::verifier {

/// worst_case_memory of several ranks at a time, each at its place in `ranks`, within limits. Where memory
/// is limited they are looked at one after another, since each of them may take all of it. Errors: throws
/// LimitReached.
[[nodiscard]] std::vector<std::optional<WorstCase>> worst_cases_within(const Limits& limits,
                                                                       const AnalyzedProgram& analyzed,
                                                                       const std::vector<Bytes>& sizes,
                                                                       std::span<const RankId> ranks);

}  // namespace ppsim::verifier
