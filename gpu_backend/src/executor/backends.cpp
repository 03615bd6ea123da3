#include "ppsim/gpu_backend/executor/backends.hpp"

#include <thread>
#include <vector>

#include "device/cuda/cuda_status.hpp"
#include "device/cuda/cuda_table.hpp"
#include "device/cuda/gpu_api.hpp"
#include "ppsim/gpu_backend/device/device.hpp"

namespace ppsim::gpu_backend {
namespace {

class HeldContexts {
 public:
  explicit HeldContexts(CudaTable cuda) : cuda_(std::move(cuda)) {
    int count = 0;
    if (cuda_.init(0) != kCudaSuccess || cuda_.device_count(&count) != kCudaSuccess) return;
    for (int ordinal = 0; ordinal < count; ++ordinal) hold(ordinal);
  }
  HeldContexts(const HeldContexts&) = delete;
  HeldContexts& operator=(const HeldContexts&) = delete;
  ~HeldContexts() {
    for (const int device : devices_) cuda_.primary_context_release(device);
  }

 private:
  void hold(int ordinal) {
    int device = 0;
    CUctx_st* context = nullptr;
    if (cuda_.device_get(&device, ordinal) != kCudaSuccess) return;
    if (cuda_.primary_context_retain(&context, device) == kCudaSuccess) devices_.push_back(device);
  }

  CudaTable cuda_;
  std::vector<int> devices_;
};

/// Holds the primary context of every device. Null without a driver or a device: who runs there is told why.
std::shared_ptr<void> hold_contexts(const std::string& cuda_library) {
  try {
    return std::make_shared<HeldContexts>(load_cuda(cuda_library));
  } catch (const BackendError&) {
    return nullptr;
  }
}

}  // namespace

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
