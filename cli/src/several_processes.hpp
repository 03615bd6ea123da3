#pragma once

#include <functional>

#include "command.hpp"
#include "ppsim/gpu_backend/bootstrap.hpp"

namespace ppsim::cli {

/// Runs the same on all processes that mpirun or srun has started. Process 0 speaks for all; another one only
/// when process 0 is gone. An error of one stops all.
/// Returns: the exit code.
int on_all_processes(const Output& output,
                     const std::function<Expected<int>(const Output&, Bootstrap*)>& run);

}  // namespace ppsim::cli
