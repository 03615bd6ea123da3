#pragma once

#include "ppsim/gpu_backend/executor/backends.hpp"

namespace ppsim::gpu_backend {

/// Which of driver, devices, NCCL and cuBLASLt are installed, with versions, and which are missing.
[[nodiscard]] BackendStatus cuda_status();

/// The reason why a transformer cannot run on devices that are there; empty if this build has its kernels.
[[nodiscard]] std::string cuda_fault(bool devices, bool kernels);

}  // namespace ppsim::gpu_backend
