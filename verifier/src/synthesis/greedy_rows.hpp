#pragma once

#include <array>

#include "synthesis/incumbent.hpp"

namespace ppsim::verifier::synthesis {

/// Phases by preference where several could start at the same time.
using Preference = std::array<int, 3>;

/// Every preference of a model's phases.
[[nodiscard]] std::vector<Preference> preferences(const ChainModel& model);

/// Whatever can start first is run first, within the limit: some rank always can go on, for the oldest
/// microbatch waits for nothing but ranks.
[[nodiscard]] PhaseRows greedy_rows(const ChainModel& model, const Preference& preference);

}  // namespace ppsim::verifier::synthesis
