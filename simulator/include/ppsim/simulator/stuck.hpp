#pragma once

#include <cstdint>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "ppsim/core/error.hpp"
#include "ppsim/core/execution_graph.hpp"
#include "ppsim/core/program.hpp"

namespace ppsim {

/// Why an instruction of a stuck run waits.
enum class StallReason : std::uint8_t {
  data,           ///< a data dependency of its rank is incomplete
  queue,          ///< an earlier instruction of its queue is incomplete
  after,          ///< an instruction named in `after` is incomplete
  host,           ///< the host waits for a blocking instruction before it issues
  unsatisfiable,  ///< a dependency that no instruction of the rank provides
  other_end,      ///< the other end of a transfer has not started
  no_other_end,   ///< a SEND without RECV, or the other way round
  credit,         ///< the channel is full until an earlier message is received
  member,         ///< another member of a collective has not started
  no_member,      ///< a member takes no part in the collective
  place,          ///< the residency limit of its rank is exhausted
};
[[nodiscard]] std::string_view stall_reason_name(StallReason reason);

/// One incomplete instruction and the first thing that it waits for; `waits_for` is invalid where that does
/// not exist.
struct Stall {
  InstructionId waiter;
  InstructionId waits_for;
  StallReason reason = StallReason::data;
  friend bool operator==(const Stall&, const Stall&) = default;
};

/// Two ends of a transfer or collective that meet and name different things.
struct Mismatch {
  InstructionId first;
  InstructionId second;
  friend bool operator==(const Mismatch&, const Mismatch&) = default;
};

/// Why a Program has no times: it is mismatched (then meaning stops there), or it deadlocks.
struct Stuck {
  std::vector<Mismatch> mismatches;  ///< in channel order; not empty: nothing was run
  std::vector<Stall> stalls;         ///< one per incomplete instruction, ascending

  friend bool operator==(const Stuck&, const Stuck&) = default;
};

/// Every meeting whose ends name different things, or nothing when all match.
[[nodiscard]] std::optional<Stuck> find_mismatches(const Program& program, const ExecutionGraph& graph);

/// Which instructions of a run have started and completed; indexed by instruction.
struct RunState {
  std::vector<char> started;
  std::vector<char> complete;
};

/// What each incomplete instruction of a run that can go no further waits for.
[[nodiscard]] Stuck explain_stalls(const Program& program, const ExecutionGraph& graph,
                                   const RunState& state);

/// The stalls that follow each other from the first one up to a cycle (then only the cycle) or to something
/// absent.
[[nodiscard]] std::vector<Stall> culprits(const Stuck& stuck);

/// As an error of code deadlock (ill_formed when mismatched) whose message has a line `rank r: action waits
/// for rank q: action (why)` per culprit.
[[nodiscard]] Error to_error(const Program& program, const Stuck& stuck);

}  // namespace ppsim
