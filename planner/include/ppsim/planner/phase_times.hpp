#pragma once

#include <chrono>

#include "ppsim/core/ir/units.hpp"

namespace ppsim::planner {

/// Wall time of the parts of one simulation; 0 where there was no such part.
struct PhaseTimes {
  Nanoseconds reading = 0;      ///< a file, up to the IR
  Nanoseconds generation = 0;   ///< a schedule by its name
  Nanoseconds costs = 0;        ///< costs and sizes of the pipeline
  Nanoseconds lowering = 0;     ///< of a schedule
  Nanoseconds graph = 0;        ///< the execution graph
  Nanoseconds checks = 0;       ///< that the Program is well-formed
  Nanoseconds order = 0;        ///< a run without times
  Nanoseconds compilation = 0;  ///< to straight-line arithmetic
  Nanoseconds simulation = 0;   ///< start and end of every instruction
  Nanoseconds metrics = 0;      ///< memory, bubbles, critical path
  Nanoseconds output = 0;       ///< formatting and printing

  friend bool operator==(const PhaseTimes&, const PhaseTimes&) = default;
};

/// Wall time from one lap to the next.
class Stopwatch {
 public:
  /// Since the lap before, or since it was made.
  Nanoseconds lap() {
    const auto now = std::chrono::steady_clock::now();
    const auto passed = std::chrono::duration_cast<std::chrono::nanoseconds>(now - since_).count();
    since_ = now;
    return passed;
  }

 private:
  std::chrono::steady_clock::time_point since_ = std::chrono::steady_clock::now();
};

}  // namespace ppsim::planner

namespace ppsim {
using planner::PhaseTimes;
using planner::Stopwatch;
}  // namespace ppsim
