#pragma once

#include <optional>

#include "ppsim/planner/calibration/calibrate.hpp"

namespace ppsim::planner {

/// How far the model of a workload is from measured communication, and how far times of every other size are
/// from those between them. Where there is no workload nothing is known before.
[[nodiscard]] CalibrationGroup collective_group(const MeasuredCollective& measured,
                                                const std::optional<Workload>& workload);

}  // namespace ppsim::planner
