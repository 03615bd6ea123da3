#pragma once

#include <span>
#include <vector>

#include "lowering/order/after_edge.hpp"
#include "ppsim/core/ir/schedule.hpp"

namespace ppsim::lowering {

/// The rows of a Schedule, seen in place until a pass replaces one.
/// Requires: the Schedule outlives the rows.
class StepRows {
 public:
  explicit StepRows(const Schedule& schedule);
  StepRows(const StepRows&) = delete;
  StepRows& operator=(const StepRows&) = delete;

  [[nodiscard]] std::span<const Step> operator[](RankId rank) const { return rows_[rank]; }
  [[nodiscard]] int ranks() const { return static_cast<int>(rows_.size()); }
  /// Requires: no edges of the rank, which name places in its row.
  void replace(RankId rank, std::vector<Step> steps);

  /// Which steps wait for which beyond their dependencies, by place in the row; ascending.
  [[nodiscard]] const std::vector<AfterEdge>& after(RankId rank) const { return after_[rank]; }
  void add_after(RankId rank, const std::vector<AfterEdge>& edges);
  void forget_after();

 private:
  IdVector<RankId, std::vector<Step>> owned_;
  IdVector<RankId, std::span<const Step>> rows_;
  IdVector<RankId, std::vector<AfterEdge>> after_;
};

}  // namespace ppsim::lowering
