#pragma once

#include "ppsim/workload/analytic.hpp"

namespace ppsim::workload {

/// The same costs, each times the factor of its kind; the end of a step as REDUCE_GRAD and OPT.
/// Errors: throws Overflow where a cost does not fit in 64 bits.
[[nodiscard]] AnalyticCosts calibrated_costs(AnalyticCosts costs, const Calibration& calibration);

}  // namespace ppsim::workload
