#pragma once

#include "device/cuda/gpu_api.hpp"
#include "gpu_admission.hpp"
#include "ppsim/gpu_backend/executor/execute.hpp"

namespace ppsim::gpu_backend {

/// execute() on a machine as `api` shows it. Requires: options.backend is CudaOptions.
[[nodiscard]] Expected<RunResult> execute_on_gpu(const GpuApi& api, const GpuRunInput& input);

/// execute() on the GPUs of this machine: opens the libraries before anything else.
[[nodiscard]] Expected<RunResult> execute_on_gpu(const GpuRunInput& input);

}  // namespace ppsim::gpu_backend
