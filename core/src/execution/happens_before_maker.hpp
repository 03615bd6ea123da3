#pragma once

#include <vector>

#include "ppsim/core/execution/clock_pass.hpp"
#include "ppsim/core/execution/happens_before.hpp"
#include "rank_parts.hpp"

namespace ppsim {

/// Makes HappensBefore for one rank of a Program that finishes.
class HappensBeforeMaker {
 public:
  /// Requires: `order` is a complete run order of the graph.
  HappensBeforeMaker(const Program& program, const ExecutionGraph& graph, const RunOrder& order, RankId rank);

  HappensBefore make();

 private:
  void number_lanes(const Program& program);
  void record(InstructionId id, ClockView clock, std::vector<std::int32_t>& rows);
  [[nodiscard]] bool is_over(InstructionId id, ClockView clock) const;
  [[nodiscard]] bool is_own(InstructionId id) const { return id >= result_.first_ && id < last_; }

  const RunOrder& order_;
  InstructionId last_;
  RankParts parts_;
  ClockPass<RankParts> pass_;
  std::vector<std::vector<InstructionId>> lanes_;
  std::vector<std::int32_t> known_;  ///< [lane][lane]: how far each is known to be, by the last of a lane
  HappensBefore result_;
};

}  // namespace ppsim
