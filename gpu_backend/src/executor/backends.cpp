#include "ppsim/gpu_backend/executor/backends.hpp"

#include <thread>

#include "device/cuda/cuda_status.hpp"
#include "device/cuda/gpu_api.hpp"
#include "device/cuda/held_devices.hpp"
#include "ppsim/gpu_backend/device/device.hpp"

namespace ppsim::gpu_backend {

std::vector<BackendStatus> backend_statuses() {
  const std::string cores = std::to_string(std::thread::hardware_concurrency());
  return {{"cpu", true, "threads of one process on " + cores + " cores"},
          {"emulated", true, "the times of a cost table, in one process or by MPI in several"},
          cuda_status()};
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

std::shared_ptr<void> hold_devices(const BackendOptions& backend) {
  const auto* cuda = std::get_if<CudaOptions>(&backend);
  return cuda == nullptr ? nullptr : hold_contexts(cuda->cuda_library);
}

}  // namespace ppsim::gpu_backend
