#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "ppsim/core/execution/timed_trace.hpp"
#include "ppsim/core/ir/capabilities.hpp"
#include "ppsim/core/ir/program.hpp"
#include "ppsim/core/ir/tables.hpp"

namespace ppsim {

/// How a run of the naive executor ended.
struct NaiveRun {
  enum class Outcome : std::uint8_t { finished, deadlock, mismatch };
  Outcome outcome = Outcome::finished;
  std::vector<InstructionId> incomplete;  ///< ascending; what did not complete
  TimedTrace trace;                       ///< Instant{-1,0} where nothing started, or ended
};

/// Runs a Program by the letter of E1 to E9, one instant and one delta cycle at a time, with sets and linear
/// scans: slow, obvious, and written without the execution graph and the wait analysis on it, so that they
/// can be tested against each other. With a residency limit the ready instruction of the lowest position
/// takes a free place; a group takes one.
[[nodiscard]] NaiveRun run_naively(const Program& program, const TransportCapabilities& capabilities,
                                   const CostTable& costs);

/// A state in which something is incomplete and nothing can move; by instruction.
struct HungState {
  std::vector<bool> started;
  std::vector<bool> complete;
};

/// The result of a search through all arbitrations.
struct Exploration {
  bool whole = false;  ///< all states were visited, or one that hangs was found
  std::optional<HungState> hung;
};

/// Looks for an arbitration under a residency limit that leads to a deadlock, whatever the durations. A
/// mismatch is no deadlock. The search ends when more than `state_limit` states would be visited, or as soon
/// as `stop` returns true.
[[nodiscard]] Exploration find_hung_state(
    const Program& program, const TransportCapabilities& capabilities, std::size_t state_limit,
    const std::function<bool()>& stop = [] { return false; });

/// Whether find_hung_state finds one. Returns: nothing when it did not get to an end.
[[nodiscard]] std::optional<bool> can_deadlock(
    const Program& program, const TransportCapabilities& capabilities, std::size_t state_limit,
    const std::function<bool()>& stop = [] { return false; });

}  // namespace ppsim
