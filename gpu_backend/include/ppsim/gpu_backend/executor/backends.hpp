#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ppsim/gpu_backend/executor/execute.hpp"

namespace ppsim::gpu_backend {

/// The most hardware queues of a CUDA device, however many CUDA_DEVICE_MAX_CONNECTIONS asks for. Source: CUDA
/// Programming Guide, "CUDA Environment Variables".
inline constexpr int kMaxHardwareQueues = 32;

/// A backend, and whether this build and this machine have what it needs.
struct BackendStatus {
  std::string name;
  bool available = false;
  std::string detail;      ///< the devices and libraries found, or those that are missing
  std::string fault = {};  ///< the reason why runs fail although devices exist; empty: they do not
  friend bool operator==(const BackendStatus&, const BackendStatus&) = default;
};

/// Every backend that `ppsim run --backend` names. Order: by name of BackendOptions, then the others.
[[nodiscard]] std::vector<BackendStatus> backend_statuses();

/// Looks for the libraries that runs on a backend need, and for nothing else. Errors: io naming the library
/// that is missing, or the symbol that it lacks, and the variable that names another library.
[[nodiscard]] Expected<void> check_libraries(const BackendOptions& backend);

/// The transport of a run, as its options have it; on GPUs with the launches of NCCL, which starts the
/// kernels of a device in host order over all communicators, or of a single hardware queue.
[[nodiscard]] TransportCapabilities capabilities_of(const RunOptions& run);

/// Keeps the devices that Programs of so many ranks run on open between runs, so that a run finds the modules
/// of the one before loaded. Null where there is nothing to keep.
[[nodiscard]] std::shared_ptr<void> hold_devices(const RunOptions& run, int ranks);

}  // namespace ppsim::gpu_backend

namespace ppsim {
using gpu_backend::backend_statuses;
using gpu_backend::BackendStatus;
using gpu_backend::capabilities_of;
using gpu_backend::check_libraries;
using gpu_backend::hold_devices;
using gpu_backend::kMaxHardwareQueues;
}  // namespace ppsim
