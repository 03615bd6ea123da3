#pragma once

#include <span>
#include <vector>

#include "ppsim/core/schedule.hpp"

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
  void replace(RankId rank, std::vector<Step> steps);

 private:
  IdVector<RankId, std::vector<Step>> owned_;
  IdVector<RankId, std::span<const Step>> rows_;
};

}  // namespace ppsim::lowering
