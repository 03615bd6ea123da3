#include "held_devices.hpp"

#include <vector>

#include "cuda_table.hpp"
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

}  // namespace

std::shared_ptr<void> hold_contexts(const std::string& cuda_library) {
  try {
    return std::make_shared<HeldContexts>(load_cuda(cuda_library));
  } catch (const BackendError&) {
    return nullptr;
  }
}

}  // namespace ppsim::gpu_backend
