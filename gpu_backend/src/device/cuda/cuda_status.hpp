#pragma once

#include "ppsim/gpu_backend/executor/backends.hpp"

namespace ppsim::gpu_backend {

/// What of driver, devices, NCCL and cuBLASLt there is, with versions, and what is missing.
[[nodiscard]] BackendStatus cuda_status();

}  // namespace ppsim::gpu_backend
