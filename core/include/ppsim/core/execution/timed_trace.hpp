#pragma once

#include <algorithm>
#include <iosfwd>
#include <string>
#include <vector>

#include "ppsim/core/execution/large_vector.hpp"
#include "ppsim/core/ir/error.hpp"
#include "ppsim/core/ir/program.hpp"
#include "ppsim/core/ir/units.hpp"
#include "ppsim/core/memory/tensors.hpp"

namespace ppsim {

/// When something happened: nanoseconds, and the delta cycle within that instant (all completions due, then
/// all enabled starts; zero-duration work completes in the next one).
struct Instant {
  Nanoseconds time = 0;
  std::int32_t delta = 0;
  friend constexpr auto operator<=>(const Instant&, const Instant&) = default;
};

/// An event that never happens has a negative time.
[[nodiscard]] constexpr bool happened(Instant at) { return at.time >= 0; }

struct Span {
  Instant start;
  Instant end;
  friend bool operator==(const Span&, const Span&) = default;
};

/// From one time to another.
struct Interval {
  Nanoseconds begin = 0;
  Nanoseconds end = 0;
};
/// The time that is in both.
[[nodiscard]] constexpr Nanoseconds overlap(Interval a, Interval b) {
  return std::max<Nanoseconds>(0, std::min(a.end, b.end) - std::max(a.begin, b.begin));
}

/// Start and end of every instruction of a Program, simulated or measured.
struct TimedTrace {
  /// At full size a third of all memory: who writes every span need not set them first.
  using Spans = IdVector<InstructionId, Span, LargeVector<Span>>;
  Spans spans;
  friend bool operator==(const TimedTrace&, const TimedTrace&) = default;
};

/// The queues of an instruction as a trace file names them: one name, or several joined by '+'.
[[nodiscard]] std::string queues_text(const Program& program, InstructionId id);

/// Columns rank,queue,index,instruction,start_ns,end_ns with a header, rank by rank in issue order.
void write_trace_csv(std::ostream& out, const Program& program, const TimedTrace& trace);

/// Memory over time of one rank.
struct MemoryPoint {
  Instant at;
  Bytes bytes = 0;
  friend bool operator==(const MemoryPoint&, const MemoryPoint&) = default;
};
struct MemoryProfile {
  Bytes peak_bytes = 0;
  Instant peak_at;
  std::vector<MemoryPoint> points;  ///< after each change, ascending; one point per delta cycle
};

/// Memory that the tensors of each rank occupy when the Program runs as traced. Every delta cycle
/// counts for the peak.
[[nodiscard]] IdVector<RankId, MemoryProfile> replay_memory(const Program& program, const TimedTrace& trace,
                                                            const TensorTable& table,
                                                            const std::vector<Bytes>& sizes);

}  // namespace ppsim
