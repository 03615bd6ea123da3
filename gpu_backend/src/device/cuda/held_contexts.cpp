#include "held_contexts.hpp"

#include <utility>

namespace ppsim::gpu_backend {

HeldContexts::HeldContexts(CudaTable cuda, const EnvironmentTable& environment,
                           const std::function<DeviceRange(int count)>& of)
    : cuda_(std::move(cuda)) {
  int count = 0;
  start_driver(cuda_, environment);
  check_cuda(cuda_, cuda_.device_count(&count), "counting devices");
  const DeviceRange range = of(count);
  for (int ordinal = range.begin; ordinal < range.end; ++ordinal) {
    int device = 0;
    CUctx_st* context = nullptr;
    if (cuda_.device_get(&device, ordinal) != kCudaSuccess) continue;
    if (cuda_.primary_context_retain(&context, device) == kCudaSuccess) devices_.push_back(device);
  }
}

HeldContexts::~HeldContexts() {
  for (const int device : devices_) cuda_.primary_context_release(device);
}

}  // namespace ppsim::gpu_backend
