#pragma once

#include <vector>

#include "ppsim/core/ir/program.hpp"

namespace ppsim::gpu_backend {

/// The communicators of a Program with several members in rounds: those of one share no rank, so that a
/// single split of all ranks makes them. A chain of ranks with a communicator for each direction of each edge
/// takes four. Order: the same on every rank; within a round by members.
[[nodiscard]] std::vector<std::vector<CommunicatorId>> split_rounds(const Program& program);

}  // namespace ppsim::gpu_backend
