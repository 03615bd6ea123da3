#pragma once

#include <string>

#include "ppsim/gpu_backend/device.hpp"

namespace ppsim::cuda {

/// Errors: throws BackendError with `what` and a launcher's error code that is not 0.
inline void check_launch(int result, const char* what) {
  if (result == 0) return;
  throw BackendError(ErrorCode::io,
                     std::string(what) + " could not be launched: CUDA error " + std::to_string(result));
}

}  // namespace ppsim::cuda
