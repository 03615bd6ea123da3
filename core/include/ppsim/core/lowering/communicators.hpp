#pragma once

#include "ppsim/core/ir/program.hpp"
#include "ppsim/core/lowering/lowering.hpp"

namespace ppsim {

/// Gives every communication of a draft a communicator of `policy`, replacing those it had; only
/// communicators in use come about. Point-to-point ones are named "world", "0-1", "0>1" and "s0>s1" after the
/// policy; a COLL takes one with the name and members of its collective, a REDUCE_GRAD one per block ("reduce
/// b0"), an UNSHARD one per rank
/// ("shard r0", the data-parallel group behind the rank). These share a queue with "world" and with nothing
/// else. Requires: ids in range. Order: point-to-point by ranks or stages, then collectives, blocks and
/// shards by index.
void assign_communicators(const Pipeline& pipeline, ProgramDraft& draft, CommunicatorPolicy policy);

}  // namespace ppsim
