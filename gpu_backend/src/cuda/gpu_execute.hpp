#pragma once

#include "cuda/gpu_actions.hpp"
#include "cuda/gpu_api.hpp"
#include "ppsim/gpu_backend/execute.hpp"

namespace ppsim {

/// Whether the GPU backend can run a Program as it is asked to. Requires: options.backend is CudaOptions.
/// Errors: bad_argument.
[[nodiscard]] Expected<void> check_gpu_options(const Program& program, const RunOptions& options);

/// execute() on a machine as `api` shows it. Requires: options.backend is CudaOptions.
[[nodiscard]] Expected<RunResult> execute_on_gpu(const GpuApi& api, const GpuRunInput& input);

/// execute() on the GPUs of this machine: opens the libraries first.
[[nodiscard]] Expected<RunResult> execute_on_gpu(const GpuRunInput& input);

}  // namespace ppsim
