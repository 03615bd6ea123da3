#pragma once

#include <string>

#include "command.hpp"
#include "ppsim/gpu_backend/executor/execute.hpp"

namespace ppsim::cli {

/// The backend of a run, as the command line names it.
struct BackendChoice {
  std::string backend = "cpu", transport = "inproc", buffers = "rendezvous";
  int ranks_per_device = 1;
  bool graphs = false, no_profile = false;
  std::string attention = "auto";
};

/// --ranks-per-device, --graphs and --attention.
void add_gpu_options(Command& command, BackendChoice& choice);
/// --buffers.
void add_buffer_option(Command& command, BackendChoice& choice);

/// Whether there is such a backend, and it has the transport and the options, here or elsewhere.
/// Errors: bad_argument.
[[nodiscard]] Expected<void> check_choice(const BackendChoice& choice);
/// Whether the backend is here as well. Sets what CUDA and NCCL read when they start, but for what the user
/// has set. Errors: bad_argument.
[[nodiscard]] Expected<void> open_backend(const BackendChoice& choice);
/// NCCL has one rank on a device, so that several go by copies where nothing else is asked for.
[[nodiscard]] CudaOptions cuda_options(const BackendChoice& choice);

}  // namespace ppsim::cli
