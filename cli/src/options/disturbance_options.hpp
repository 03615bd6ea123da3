#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "command.hpp"
#include "ppsim/planner/effects/step_spread.hpp"

namespace ppsim::cli {

/// The options that make steps differ from the plan.
struct DisturbanceOptions {
  std::vector<std::string> varying, slow_ranks, slow_links;
  std::string ranks;
  std::uint64_t seed = 1;

  /// Whether any is given, the seed aside.
  [[nodiscard]] bool any() const {
    return !varying.empty() || !slow_ranks.empty() || !slow_links.empty() || !ranks.empty();
  }
};

void add_disturbance_options(Command& command, DisturbanceOptions& options);

/// Errors: bad_argument where a text is wrong, and where nothing is given.
[[nodiscard]] Expected<Disturbances> disturbances_of(const DisturbanceOptions& options);

[[nodiscard]] Json spread_json(const Spread& spread);

}  // namespace ppsim::cli
