#pragma once

#include <functional>
#include <string>

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

/// The variables that the libraries read when they start.
struct EnvironmentTable {
  std::function<std::string(const std::string& name)> get;  ///< empty where it is not set
  std::function<void(const std::string& name, const std::string& value)> set;
};

/// Everything outside of this library that the executor touches: a machine, or a test's fake of one.
struct GpuApi {
  CudaTable cuda;
  NcclTable nccl;  ///< empty where the transport is not NCCL
  MarkTable marks;
  HostClock clock;
  EnvironmentTable environment;
};

/// Lets the kernels of a device's communicators start in host order; NCCL asks with its first communicator.
/// Without the order any interleaving of communicators may happen, which no proof is about. Not in graphs:
/// the driver crashes when it loads one whose kernels have that order (seen with driver 580.159, NCCL 2.28.3
/// and 2.28.9), so there all communicators of a rank have room at once instead.
/// Errors: throws BackendError where something else is set.
void order_launches(const EnvironmentTable& environment, bool graphs);
/// Starts the driver, with hardware queues enough for every stream where nothing else is set.
/// Errors: throws BackendError.
void start_driver(const CudaTable& cuda, const EnvironmentTable& environment);

/// This machine: opens the libraries that a run needs, and starts the driver.
/// Errors: throws BackendError naming the library or the symbol that is missing.
[[nodiscard]] GpuApi open_gpu_api(const CudaOptions& options);

/// NVTX ranges in a build with the CUDA toolkit, else nothing.
[[nodiscard]] MarkTable profiler_marks();
/// The variables of this process. Requires: no other thread reads or sets any meanwhile.
[[nodiscard]] EnvironmentTable process_environment();
/// Steady time; pause() gives the core away for a moment.
[[nodiscard]] HostClock host_clock();

}  // namespace ppsim::gpu_backend
