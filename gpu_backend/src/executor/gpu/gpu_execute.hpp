#pragma once

#include "device/cuda/gpu_api.hpp"
#include "ppsim/gpu_backend/executor/execute.hpp"

namespace ppsim::gpu_backend {

/// execute() on a machine as `api` shows it. Requires: admit() has let the run in, and its backend is
/// CudaOptions.
[[nodiscard]] Expected<RunResult> execute_on_gpu(const GpuApi& api, const PreparedRun& run);

/// The same on the GPUs of this machine, whose libraries it opens first.
[[nodiscard]] Expected<RunResult> execute_on_gpu(const PreparedRun& run);

}  // namespace ppsim::gpu_backend
