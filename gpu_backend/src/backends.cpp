#include "ppsim/gpu_backend/backends.hpp"

#include <thread>

#include "cuda/cuda_status.hpp"

namespace ppsim {

std::vector<BackendStatus> backend_statuses() {
  const std::string cores = std::to_string(std::thread::hardware_concurrency());
  return {{"cpu", true, "threads of one process on " + cores + " cores"},
          {"emulated", true, "the times of a cost table, in one process"},
          cuda_status()};
}

}  // namespace ppsim
