#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ppsim/core/ir/error.hpp"

namespace ppsim::cli {

/// The job of a Slurm script.
struct SlurmJob {
  std::string name;
  int ranks = 1;
  std::optional<int> ranks_per_node;  ///< none: 8, or all where there are fewer
  int ranks_per_gpu = 1;
  bool on_gpus = false;
  bool one_process = false;      ///< with all GPUs
  bool transport_given = false;  ///< on the command line
};

/// A script that runs a command line of ppsim with a process for each rank, or with all GPUs in one process.
/// Errors: bad_argument when the ranks cannot be spread so over nodes.
[[nodiscard]] Expected<std::string> sbatch_script(const SlurmJob& job,
                                                  const std::vector<std::string>& arguments);

}  // namespace ppsim::cli
