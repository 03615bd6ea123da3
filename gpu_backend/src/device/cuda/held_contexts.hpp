#pragma once

#include <functional>
#include <vector>

#include "gpu_api.hpp"

namespace ppsim::gpu_backend {

/// Devices by their ordinals: [begin, end).
struct DeviceRange {
  int begin = 0;
  int end = 0;
};

/// Keeps the primary contexts of devices, and what is loaded in them, from run to run.
class HeldContexts {
 public:
  /// `of`: the devices, of so many. Errors: throws BackendError.
  HeldContexts(CudaTable cuda, const EnvironmentTable& environment,
               const std::function<DeviceRange(int count)>& of);
  HeldContexts(const HeldContexts&) = delete;
  HeldContexts& operator=(const HeldContexts&) = delete;
  ~HeldContexts();

 private:
  CudaTable cuda_;
  std::vector<int> devices_;
};

}  // namespace ppsim::gpu_backend
