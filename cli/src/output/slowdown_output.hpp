#pragma once

#include <string>

#include "command.hpp"
#include "ppsim/planner/calibration/slowdown_fit.hpp"

namespace ppsim::cli {

/// The slowdown of ranks that share a device: a table with a row for each kind of computation, or the
/// object of --json.
[[nodiscard]] std::string slowdown_fit_text(const SlowdownFit& fit);
[[nodiscard]] Json slowdown_fit_json(const SlowdownFit& fit);

}  // namespace ppsim::cli
