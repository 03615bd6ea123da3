#pragma once

#include <optional>
#include <string>

#include "command.hpp"
#include "ppsim/gpu_backend/executor/execute.hpp"
#include "ppsim/planner/algorithms_file.hpp"

namespace ppsim::cli {

/// The backend of a run, as the command line names it.
struct BackendChoice {
  std::string backend = "cpu", transport = "inproc", buffers = "rendezvous";
  int ranks_per_device = 1;
  bool graphs = false, no_profile = false;
  std::string attention = "auto";
  std::string algorithms = {};  ///< file; empty: each library's first suggestion
};

/// --ranks-per-device, --graphs, --attention and --algorithms.
void add_gpu_options(Command& command, BackendChoice& choice);
/// --buffers.
void add_buffer_option(Command& command, BackendChoice& choice);

/// Whether there is such a backend, and it has the transport and the options, here or elsewhere.
/// Errors: bad_argument.
[[nodiscard]] Expected<void> check_choice(const BackendChoice& choice);
/// Whether the backend is here as well. Sets what CUDA and NCCL read when they start, but for what the user
/// has set. Errors: bad_argument.
[[nodiscard]] Expected<void> open_backend(const BackendChoice& choice);
/// The algorithms of a run on GPUs, from the file of --algorithms and into it. Another process than the first
/// leaves the file alone, since it gets those of the first.
class RunAlgorithms {
 public:
  /// Errors: those of AlgorithmsFile.
  [[nodiscard]] static Expected<RunAlgorithms> open(const BackendChoice& choice, bool first_process = true);

  /// Gives them to a run, which ends before this one does or is moved, and writes what it times at once.
  void give_to(RunOptions& run);
  /// Writes what was timed. Errors: those of AlgorithmsFile::keep().
  [[nodiscard]] Expected<void> keep() { return file_ ? file_->keep() : Expected<void>(); }
  /// Behind what else computed, for a reader.
  [[nodiscard]] std::string added_to(const std::string& kernels) const;

 private:
  std::optional<AlgorithmsFile> file_;
  std::optional<Algorithms> others_;  ///< of another process
};

/// Reads the file of --algorithms, if there is one. Errors: those of AlgorithmsFile.
[[nodiscard]] Expected<void> check_algorithms(const BackendChoice& choice);

/// NCCL has one rank on a device, so that several go by copies where nothing else is asked for.
[[nodiscard]] CudaOptions cuda_options(const BackendChoice& choice);

}  // namespace ppsim::cli
