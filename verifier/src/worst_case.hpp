#pragma once

#include <optional>

#include "limits.hpp"
#include "ppsim/verifier/memory.hpp"

namespace ppsim {

/// worst_case_memory within limits. Errors: throws LimitReached.
[[nodiscard]] std::optional<WorstCase> worst_case_within(const Limits& limits, const MemoryQuestion& question,
                                                         RankId rank, std::size_t branch_limit = 10'000);

}  // namespace ppsim
