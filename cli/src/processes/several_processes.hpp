#pragma once

#include <functional>

#include "command.hpp"
#include "ppsim/gpu_backend/process_group/bootstrap.hpp"

namespace ppsim::cli {

/// The part of a process among several; null where it is the only one.
using ProcessRun = std::function<Expected<int>(const Output&, Bootstrap*)>;

/// The number of this process among those that mpirun, srun or torchrun has started; 0 where it is alone.
[[nodiscard]] int launched_rank();
/// How many of them run on this machine; 1 where the launcher does not say.
[[nodiscard]] int launched_on_this_machine();

/// Whether the launcher has started processes on other machines too; false where it does not say.
[[nodiscard]] bool launched_on_several_machines();

/// For what runs in one process: whether a launcher has started several, each of which would do all of it.
/// Errors: bad_argument; `instead` says how it is meant.
[[nodiscard]] Expected<void> check_alone(const std::string& instead);

/// Runs the same on all processes that mpirun or srun has started, with MPI between them. Process 0 speaks
/// for all; another one only when process 0 is gone. An error of one stops all. Returns: the exit code.
int on_mpi_processes(const Output& output, const ProcessRun& run);
/// The same on all that torchrun, srun or mpirun has started, which meet by TCP; without a launcher alone.
/// `one_host`: they are of one host, where they meet if MASTER_ADDR names no other.
int on_launched_processes(const Output& output, bool one_host, const ProcessRun& run);

}  // namespace ppsim::cli
