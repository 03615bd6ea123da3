#pragma once

#include "ppsim/workload/analytic.hpp"

namespace ppsim::workload {

/// What the analytic cost model covers, and whether the workload is for this pipeline.
/// Errors: those of analytic_costs.
[[nodiscard]] Expected<void> check_workload(const Workload& workload, const Pipeline& pipeline);

}  // namespace ppsim::workload
