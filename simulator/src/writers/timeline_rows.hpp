#pragma once

#include <string>
#include <vector>

#include "ppsim/core/execution/timed_trace.hpp"
#include "ppsim/simulator/writers/timeline.hpp"

namespace ppsim::simulator {

/// A compute instruction as a timeline draws it.
struct TimelineCell {
  InstructionId instruction;
  Nanoseconds start = 0;
  Nanoseconds end = 0;
};

/// Compute instructions of a rank in issue order.
[[nodiscard]] std::vector<TimelineCell> timeline_row(const Program& program, const TimedTrace& trace,
                                                     RankId rank);

/// End of the last instruction.
[[nodiscard]] Nanoseconds timeline_end(const TimedTrace& trace);

/// Which of its rank's stages an action is on, from 0; 0 for actions without a stage.
[[nodiscard]] int chunk_of(const Program& program, RankId rank, const Action& action);

/// "12.5 ms": a time in the largest unit that keeps it at least 1.
[[nodiscard]] std::string time_text(Nanoseconds time);

/// A step of 1, 2 or 5 times a power of ten that divides `end` into at most `most` parts.
[[nodiscard]] Nanoseconds axis_step(Nanoseconds end, int most);

}  // namespace ppsim::simulator
