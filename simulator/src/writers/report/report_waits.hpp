#pragma once

#include "ppsim/simulator/metrics/metrics.hpp"

namespace ppsim::simulator {

/// The cause of an action's wait: the last of its predecessors to end.
struct ReportWait {
  InstructionId last;    ///< invalid: nothing
  InstructionId source;  ///< the compute action that it waits for in the end, across transfers; invalid: none
};

/// In a measured run something ended last, too, though the action may have started later than that.
[[nodiscard]] ReportWait wait_of(const TimedRun& run, InstructionId id);

}  // namespace ppsim::simulator
