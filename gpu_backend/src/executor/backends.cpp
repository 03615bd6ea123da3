#include "ppsim/gpu_backend/executor/backends.hpp"

#include <thread>
#include <utility>
#include <vector>

#include "device/cuda/cuda_status.hpp"
#include "device/cuda/cuda_table.hpp"
#include "device/cuda/gpu_api.hpp"
#include "device/cuda/held_contexts.hpp"
#include "executor/gpu/gpu_ranks.hpp"
#include "ppsim/gpu_backend/executor/backend_error.hpp"
#include "transformer/gpu/gpu_transformer.hpp"

namespace ppsim::gpu_backend {

std::vector<BackendStatus> backend_statuses() {
  const std::string cores = std::to_string(std::thread::hardware_concurrency());
  BackendStatus cuda = cuda_status();
  cuda.fault = cuda_fault(cuda.available, machine_libraries().kernels.has_value());
  return {{"cpu", true, "threads of one process on " + cores + " cores"},
          {"emulated", true, "the times of a cost table, in one process or by MPI in several"},
          std::move(cuda)};
}

Expected<void> check_libraries(const BackendOptions& backend) {
  const auto* cuda = std::get_if<CudaOptions>(&backend);
  try {
    if (cuda != nullptr) static_cast<void>(open_gpu_api(*cuda));
  } catch (const BackendError& failure) {
    return tl::unexpected(failure.error());
  }
  return {};
}

std::shared_ptr<void> hold_devices(const RunOptions& run, int ranks) {
  const auto* cuda = std::get_if<CudaOptions>(&run.backend);
  if (cuda == nullptr) return nullptr;
  const int each = ranks / (run.processes == nullptr ? 1 : run.processes->size());
  const auto here = [&](int count) { return devices_here(count, run, {0, each}); };
  try {
    return std::make_shared<HeldContexts>(load_cuda(cuda->cuda_library), process_environment(), here);
  } catch (const BackendError&) {
    return nullptr;  // who runs there is told why
  }
}

}  // namespace ppsim::gpu_backend
