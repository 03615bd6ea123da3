#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "gpu_ranks.hpp"
#include "process_group/peers.hpp"

namespace ppsim::gpu_backend {

/// The ranks of this process before the first step, and the algorithms that a run has.
struct PinningSetup {
  const GpuApi& api;
  const GpuRanks& ranks;
  const std::vector<std::unique_ptr<GpuStages>>& stages;
  Peers& peers;
  Bootstrap* processes;                ///< null: this one is alone
  Nanoseconds time_limit;              ///< of one timing
  const std::function<void()>& added;  ///< RunOptions::algorithm_added
};

/// Gives every rank of the job the same algorithms: those of process 0, whose first rank times what is
/// missing. Errors: throws BackendError.
void pin_algorithms(const PinningSetup& setup, Algorithms& known);

}  // namespace ppsim::gpu_backend
