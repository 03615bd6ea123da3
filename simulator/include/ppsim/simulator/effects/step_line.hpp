#pragma once

#include <vector>

#include "ppsim/core/ir/error.hpp"
#include "ppsim/core/ir/units.hpp"
#include "ppsim/simulator/effects/ratio.hpp"
#include "ppsim/simulator/engine/compiled_program.hpp"

namespace ppsim::simulator {

/// A time that grows with a factor: constant + slope * factor.
struct TimeLine {
  Nanoseconds constant = 0;
  Nanoseconds slope = 0;
  friend bool operator==(const TimeLine&, const TimeLine&) = default;
};

/// How a step grows to both sides of a factor.
struct StepGrowth {
  TimeLine below;  ///< the step for factors from `from` on
  TimeLine above;  ///< the step for factors up to `to`
  Ratio from;
  Ratio to;
  friend bool operator==(const StepGrowth&, const StepGrowth&) = default;
};

/// The step from one factor to that of the next segment.
struct StepSegment {
  Ratio from;
  TimeLine step;
  friend bool operator==(const StepSegment&, const StepSegment&) = default;
};

/// The step of a compiled Program whose costs grow with one factor, exactly. It is the longest of finitely
/// many paths, each of which is a line: convex, made of segments, and never falling.
class StepLine {
 public:
  /// `costs`: of every item; those without a duration have none. Both parts of a line are >= 0.
  /// Errors: bad_argument where they add up to more than 62 bits.
  [[nodiscard]] static Expected<StepLine> make(const CompiledProgram& program, std::vector<TimeLine> costs);

  /// The longest path at a factor; of several the one with the smallest slope, or with the largest.
  [[nodiscard]] TimeLine flattest(const Ratio& factor) const { return longest(factor, false); }
  [[nodiscard]] TimeLine steepest(const Ratio& factor) const { return longest(factor, true); }

  /// Requires: a finite factor.
  [[nodiscard]] StepGrowth growth(const Ratio& factor) const;
  /// The whole of it, from 0 on.
  [[nodiscard]] std::vector<StepSegment> segments() const;

 private:
  struct Item {
    std::uint32_t first;
    std::uint32_t second;
    TimeLine cost;
  };

  [[nodiscard]] TimeLine longest(const Ratio& factor, bool steepest) const;
  void add_segments(const TimeLine& left, const TimeLine& right, std::vector<StepSegment>& segments) const;

  std::vector<Item> items_;
  std::vector<std::uint32_t> last_items_;
};

/// `line` at a factor, in nanoseconds.
/// Requires: a finite factor.
[[nodiscard]] double time_at(const TimeLine& line, const Ratio& factor);

/// Which of two steps is shorter from one factor to that of the next range.
struct ShorterRange {
  Ratio from;
  int shorter = 0;  ///< -1: the first, 1: the second, 0: both take as long
  friend bool operator==(const ShorterRange&, const ShorterRange&) = default;
};
/// Between break-even points, from 0 on. A point at which both only touch is none.
[[nodiscard]] std::vector<ShorterRange> shorter_ranges(const std::vector<StepSegment>& first,
                                                       const std::vector<StepSegment>& second);

}  // namespace ppsim::simulator

namespace ppsim {
using simulator::shorter_ranges;
using simulator::ShorterRange;
using simulator::StepGrowth;
using simulator::StepLine;
using simulator::StepSegment;
using simulator::TimeLine;
}  // namespace ppsim
