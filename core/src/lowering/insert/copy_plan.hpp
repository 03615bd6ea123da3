#pragma once

#include <optional>

#include "offload_choice.hpp"
#include "ppsim/core/lowering/earliest_times.hpp"
#include "ppsim/core/lowering/lowering.hpp"

namespace ppsim::lowering {

/// An OFFLOAD or RELOAD and its place in a row.
struct Copy {
  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);

  Action action;
  std::size_t place = 0;      ///< stands before this cell of the row
  std::size_t gate = kNone;   ///< the cell after which it starts
  std::size_t holds = kNone;  ///< the cell that starts after it
};

/// The copies of a rank where no times are known: OFFLOAD directly behind its F, complete when the
/// computation after the next one starts; RELOAD one computation before its B or I and beside it, for
/// activations that wait for two computations or more. Where arrivals are placed later (IssueOrder::early),
/// RELOAD directly before its B or I.
[[nodiscard]] std::vector<Copy> plan_copies(const std::vector<Wait>& waits, const LoweringOptions& options,
                                            std::span<const Cell> row);

/// When the cells of a row run while nothing is copied.
struct RowTimes {
  std::vector<Nanoseconds> start;  ///< by place in the row
  std::vector<Nanoseconds> end;
};

/// The copies of a rank beside known times: one after another, each OFFLOAD as soon as it can be, each RELOAD
/// as late as its B or I allows, but before an OFFLOAD that would make it late. Activations whose copies do
/// not fit between F and backward stay. Nothing where some B or I would start later than before.
[[nodiscard]] std::optional<std::vector<Copy>> plan_copies(const std::vector<Wait>& waits,
                                                           const CostTable& costs, std::span<const Cell> row,
                                                           const RowTimes& times);

}  // namespace ppsim::lowering
