#pragma once

#include <optional>

#include "command.hpp"
#include "ppsim/simulator/effects/shared_devices.hpp"

namespace ppsim::cli {

/// The options that slow computation down: shares of its time.
struct SlowdownOptions {
  std::optional<int> ranks_per_device;
  std::optional<double> slowdown, transfer_slowdown, collective_slowdown;

  [[nodiscard]] bool any() const { return ranks_per_device || transfer_slowdown || collective_slowdown; }
};

void add_slowdown_options(Command& command, SlowdownOptions& options);

/// Errors: bad_argument for --slowdown without --ranks-per-device or the other way round, and for shares
/// that millionths do not count.
[[nodiscard]] Expected<void> check_slowdowns(const SlowdownOptions& options);

/// Requires: check_slowdowns; `ranks` of the Program.
[[nodiscard]] SharedDevices devices_of(const SlowdownOptions& options, int ranks);

/// As they were given, 0 where they were not.
[[nodiscard]] Json slowdowns_json(const SlowdownOptions& options);

}  // namespace ppsim::cli
