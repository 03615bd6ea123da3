#pragma once

#include <functional>

#include "cuda_table.hpp"
#include "ppsim/core/ir/units.hpp"
#include "ppsim/gpu_backend/executor/execute.hpp"
#include "transport/nccl/nccl_table.hpp"

namespace ppsim::gpu_backend {

/// Named ranges of host time for a profiler, as NVTX has them.
struct MarkTable {
  std::function<void(const char* name)> push;
  std::function<void()> pop;
};

/// The host's time, and what a host thread does while it waits for a device.
struct HostClock {
  std::function<Nanoseconds()> now;
  std::function<void()> pause;
};

/// Everything outside of this library that the executor touches: a machine, or a test's fake of one.
struct GpuApi {
  CudaTable cuda;
  NcclTable nccl;  ///< empty where the transport is not NCCL
  MarkTable marks;
  HostClock clock;
};

/// This machine: opens the libraries that a run needs, and starts the driver.
/// Errors: throws BackendError naming the library or the symbol that is missing.
[[nodiscard]] GpuApi open_gpu_api(const CudaOptions& options);

/// NVTX ranges in a build with the CUDA toolkit, else nothing.
[[nodiscard]] MarkTable profiler_marks();
/// Steady time; pause() gives the core away for a moment.
[[nodiscard]] HostClock host_clock();

}  // namespace ppsim::gpu_backend
