#pragma once

#include "ppsim/gpu_backend/executor/execute.hpp"

namespace ppsim::gpu_backend {

/// Whether the GPU backend can run a Program as it is asked to, if it can finish. Requires: options.backend
/// is CudaOptions. Errors: bad_argument.
[[nodiscard]] Expected<void> check_gpu_options(const Program& program, const RunOptions& options);

}  // namespace ppsim::gpu_backend
