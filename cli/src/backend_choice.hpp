#pragma once

#include <string>

#include "command.hpp"
#include "ppsim/gpu_backend/execute.hpp"

namespace ppsim::cli {

/// What a Program runs on, as the command line names it.
struct BackendChoice {
  std::string backend = "cpu", transport = "inproc", buffers = "rendezvous";
  int ranks_per_device = 1;
  bool graphs = false, no_profile = false;
};

/// --ranks-per-device and --graphs.
void add_gpu_options(CLI::App& command, BackendChoice& choice);
/// --buffers.
void add_buffer_option(CLI::App& command, BackendChoice& choice);

/// Whether the backend is here, and has the transport. Sets what CUDA and NCCL read when they start, but for
/// what the user has set. Errors: bad_argument.
[[nodiscard]] Expected<void> open_backend(const BackendChoice& choice);
/// The same for what has no place for several processes: mpi is refused.
[[nodiscard]] Expected<void> open_alone(const BackendChoice& choice);
/// NCCL has one rank on a device, so that several go by copy engines where nothing else is asked for.
[[nodiscard]] CudaOptions cuda_options(const BackendChoice& choice);

}  // namespace ppsim::cli
