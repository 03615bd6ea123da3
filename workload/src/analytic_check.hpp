#pragma once

#include "ppsim/workload/analytic.hpp"

namespace ppsim::workload {

/// Whether the analytic cost model covers the workload, and whether that is for this pipeline.
/// Errors: those of analytic_costs.
[[nodiscard]] Expected<void> check_workload(const Workload& workload, const Pipeline& pipeline);

}  // namespace ppsim::workload
