#pragma once

#include "ppsim/workload/analytic.hpp"
#include "ppsim/workload/calibration.hpp"

namespace ppsim::workload {

/// Seconds that the costs of a workload count for an operation on `bytes` over a group of GPUs of its
/// cluster; as its calibration has it where that was measured.
[[nodiscard]] double communication_seconds(const Workload& workload, MeasuredOperation operation,
                                           const GpuGroup& group, double bytes);

}  // namespace ppsim::workload
