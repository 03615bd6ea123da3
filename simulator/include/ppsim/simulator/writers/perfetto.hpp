#pragma once

#include <iosfwd>
#include <span>
#include <string>

#include "ppsim/simulator/metrics/metrics.hpp"

namespace ppsim::simulator {

/// Writes a run as Chrome trace JSON, which Perfetto and chrome://tracing open: pid = rank, one thread per
/// queue, a slice `PP:<action>` per instruction on each of its queues, a flow from SEND to RECV, memory of
/// each rank as a counter.
///
/// The trace may be simulated or measured; costs do not matter. Slices of one thread never overlap as long as
/// the queues of the trace ran their instructions one after another. Units: microseconds with three decimals,
/// as the format has them.
void write_chrome_trace(std::ostream& out, const TimedRun& run);

/// A run of several in one trace. Only refers to the run.
struct TracedRun {
  std::string name;  ///< follows the names of its ranks
  TimedRun run;
};

/// Several runs of Programs with the same ranks: those of one rank are processes next to each other, in the
/// order of the runs.
void write_chrome_trace(std::ostream& out, std::span<const TracedRun> runs);

/// The same as a Perfetto protobuf trace, which scales to larger runs. Processes have pid rank + 1: Perfetto
/// keeps pid 0 for itself. Flows join two instants within the slices, because a RECV may start before its
/// SEND. Units: nanoseconds.
void write_perfetto_trace(std::ostream& out, const TimedRun& run);
void write_perfetto_trace(std::ostream& out, std::span<const TracedRun> runs);

}  // namespace ppsim::simulator

namespace ppsim {
using simulator::TracedRun;
using simulator::write_chrome_trace;
using simulator::write_perfetto_trace;
}  // namespace ppsim
