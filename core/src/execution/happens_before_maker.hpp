#pragma once

#include <vector>

#include "ppsim/core/execution/clock_plan.hpp"
#include "ppsim/core/execution/happens_before.hpp"
#include "rank_parts.hpp"

namespace ppsim {

/// Makes HappensBefore for one rank of a Program that finishes.
class HappensBeforeMaker {
 public:
  HappensBeforeMaker(const Program& program, const ExecutionGraph& graph, RankId rank);

  /// Requires: a plan of the graph.
  HappensBefore make(const ClockPlan& plan);

 private:
  void number_tracks(const Program& program);
  void record(InstructionId id, ClockView clock, std::vector<std::int32_t>& rows);
  [[nodiscard]] bool is_over(InstructionId id, ClockView clock) const;
  [[nodiscard]] bool is_own(InstructionId id) const { return id >= result_.first_ && id < last_; }

  InstructionId last_;
  RankParts parts_;
  std::vector<std::vector<InstructionId>> tracks_;
  std::vector<std::int32_t> known_;  ///< [track][track]: how far each is known to be, by the last of a track
  HappensBefore result_;
};

}  // namespace ppsim
