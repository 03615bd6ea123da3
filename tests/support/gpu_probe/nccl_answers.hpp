#pragma once

#include <string>

#include "support/gpu_probe/probe_machine.hpp"

namespace ppsim::test {

/// The outcome of a call that NCCL may refuse: "completes", "hangs", or the error.
using NcclAnswer = std::string;

/// A message of the only rank of a communicator to itself, its two ends in one group or one after the other.
[[nodiscard]] NcclAnswer send_to_itself(const ProbeMachine& machine, bool grouped);

/// A communicator of two ranks that are both on device 0, in this process.
[[nodiscard]] NcclAnswer two_ranks_on_a_device(const ProbeMachine& machine);

/// One of two processes that are both on device 0: a communicator of both, and a message each way, whose
/// bytes are compared. The processes find each other by NCCL_COMM_ID; NCCL_HOSTID tells them apart.
[[nodiscard]] NcclAnswer one_of_two_processes(const ProbeMachine& machine, int rank);

}  // namespace ppsim::test
