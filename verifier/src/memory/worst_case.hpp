#pragma once

#include <optional>
#include <span>
#include <vector>

#include "limits.hpp"
#include "ppsim/verifier/memory/memory.hpp"

namespace ppsim::verifier {

/// worst_case_memory of several ranks at a time, each where it stands in `ranks`, within limits. Where memory
/// is limited they are looked at one after another, since each of them may take all of it. Errors: throws
/// LimitReached.
[[nodiscard]] std::vector<std::optional<WorstCase>> worst_cases_within(const Limits& limits,
                                                                       const MemoryQuestion& question,
                                                                       std::span<const RankId> ranks);

}  // namespace ppsim::verifier
