#pragma once

#include <vector>

#include "ppsim/core/execution/timed_trace.hpp"

namespace ppsim::simulator {

/// How long the instructions of one kind took in two runs of a Program: a measured and a simulated one.
/// Communication counts from its start, so waiting for the other end is part of it.
struct KindTimes {
  OpKind kind = OpKind::forward;  ///< of a group: of its first member; of a pair: OVERLAP_F_B
  int count = 0;                  ///< instructions that are complete in both runs
  Nanoseconds measured = 0;
  Nanoseconds simulated = 0;
  friend bool operator==(const KindTimes&, const KindTimes&) = default;
};

/// Order: kinds as in op_kind.def; those that occur.
/// Requires: both traces of the Program.
[[nodiscard]] std::vector<KindTimes> compare_kinds(const Program& program, const TimedTrace& measured,
                                                   const TimedTrace& simulated);

/// From the first start to the last completion; 0 where nothing happened.
[[nodiscard]] Nanoseconds trace_span(const TimedTrace& trace);

}  // namespace ppsim::simulator

namespace ppsim {
using simulator::compare_kinds;
using simulator::KindTimes;
using simulator::trace_span;
}  // namespace ppsim
