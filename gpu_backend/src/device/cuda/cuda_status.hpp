#pragma once

#include "ppsim/gpu_backend/executor/backends.hpp"

namespace ppsim::gpu_backend {

/// Which of driver, devices, NCCL and cuBLASLt are installed, with versions, and which are missing.
[[nodiscard]] BackendStatus cuda_status();

}  // namespace ppsim::gpu_backend
