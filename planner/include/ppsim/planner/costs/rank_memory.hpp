#pragma once

#include <cstddef>
#include <optional>

#include "ppsim/core/execution/analyzed_program.hpp"
#include "ppsim/core/ir/program.hpp"
#include "ppsim/core/ir/tables.hpp"
#include "ppsim/core/ir/transports.hpp"
#include "ppsim/core/memory/slot_plan.hpp"

namespace ppsim::planner {

/// The memory that a device needs besides live tensors, which the property `memory` bounds.
struct RankMemory {
  /// Of the static plan of addresses that execute() makes; empty where the limits do not suffice for it.
  std::optional<IdVector<RankId, Bytes>> pool_bytes;
  bool stopped = false;  ///< why it is empty: it was too late
  /// Upper bound of the messages that a rank has sent and nobody has received: with credits(n) up to n in a
  /// row on each of its channels, under rendezvous none. They are in buffers of the transport beside the
  /// pool; of the transports there are, MPI's are with the sender, those between threads in the one process.
  IdVector<RankId, Bytes> transport_bytes;
};

struct RankMemoryOptions {
  SlotLimits limits = {.max_conflicts = std::size_t{1} << 26U};  ///< a plan takes seconds
  Bytes alignment = kSlotAlignment;  ///< that of execute(); 1 where bytes stand for something else
};

/// Requires: the Program finishes.
[[nodiscard]] RankMemory rank_memory(const AnalyzedProgram& analyzed, const SizeTable& sizes,
                                     const RankMemoryOptions& options = {});

/// The memory of a transport's communicators on each rank for the messages of a Program, besides its tensors.
[[nodiscard]] IdVector<RankId, Bytes> communicator_bytes(const Program& program, const EdgeMemory& of_edge);

}  // namespace ppsim::planner

namespace ppsim {
using planner::communicator_bytes;
using planner::rank_memory;
using planner::RankMemory;
using planner::RankMemoryOptions;
}  // namespace ppsim
