#pragma once

#include "executor/worker.hpp"
#include "gpu_actions.hpp"

namespace ppsim::gpu_backend {

/// Whether the GPU backend can run a Program as it is asked to. Requires: options.backend is CudaOptions.
/// Errors: bad_argument.
[[nodiscard]] Expected<void> check_gpu_options(const Program& program, const RunOptions& options);

/// The same, whether the model can, whether all processes are about to run the same, and whether the run has
/// its certificate or needs none. Returns: the ranks of this process.
[[nodiscard]] Expected<RankRange> admit_on_gpu(const GpuRunInput& input);

}  // namespace ppsim::gpu_backend
