#pragma once

#include <string>

#include "cuda_table.hpp"

namespace ppsim::gpu_backend::cuda {

/// Errors: throws BackendError with `what` and the name of a launcher's error, whose numbers the runtime
/// shares with the driver.
inline void check_launch(const CudaTable& cuda, int result, const char* what) {
  if (result != 0) check_cuda(cuda, result, std::string("launching ") + what);
}

}  // namespace ppsim::gpu_backend::cuda
