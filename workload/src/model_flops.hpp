#pragma once

#include "ppsim/workload/analytic.hpp"

namespace ppsim::workload {

/// Pairs of a token and one that it attends to, of causal attention: half of all, or those in the window.
[[nodiscard]] double attended_pairs(double sequence, double window);

/// FLOP/s of one GPU as sold, at the data type of the products.
[[nodiscard]] double peak_rate(const Workload& workload);

/// Operations of a step, forward and backward, no recompute, of causal attention half of the scores; with
/// `mtp` multi-token prediction layers.
[[nodiscard]] double step_flops(const Workload& workload, std::int64_t mtp);

}  // namespace ppsim::workload
