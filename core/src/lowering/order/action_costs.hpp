#pragma once

#include <vector>

#include "lowering/insert/edge_numbers.hpp"
#include "ppsim/core/ir/schedule.hpp"
#include "ppsim/core/ir/tables.hpp"

namespace ppsim::lowering {

/// The ranks that take part in a cell beside its own, ascending; empty for what a rank does alone.
[[nodiscard]] std::vector<RankId> partners_of(const Pipeline& pipeline, const Action& action, RankId rank);

/// Durations out of a CostTable, each looked up once.
class ActionCosts {
 public:
  /// Without a table everything takes no time.
  ActionCosts(const Pipeline& pipeline, const CostTable* table);

  [[nodiscard]] Nanoseconds of_cell(const Cell& cell);
  /// Requires: SEND_F or SEND_B along an edge of the pipeline.
  [[nodiscard]] Nanoseconds of_transfer(const Action& send);

 private:
  [[nodiscard]] Nanoseconds remembered(std::size_t index, const Action& action);

  const CostTable* table_;
  EdgeNumbers edges_;
  std::size_t subjects_;
  std::size_t slices_;
  std::vector<Nanoseconds> known_;  // -1: not looked up yet
};

}  // namespace ppsim::lowering
