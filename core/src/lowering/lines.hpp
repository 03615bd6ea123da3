#pragma once

#include <span>
#include <vector>

#include "lowering/order/after_edge.hpp"
#include "ppsim/core/execution/rank_ranges.hpp"
#include "ppsim/core/ir/program.hpp"
#include "ppsim/core/ir/units.hpp"

namespace ppsim::lowering {

/// An instruction in the making: one action, or two that run or start together.
struct Line {
  Action action;
  std::int32_t second = -1;  ///< into LineRow::seconds; -1: a single action
  std::int32_t id = -1;      ///< names the line whatever its place
};

/// The instructions of one rank, in issue order.
struct LineRow {
  std::vector<Line> lines;
  std::vector<Action> seconds;
  std::vector<AfterEdge> after;
  std::vector<Nanoseconds> times;  ///< parallel to lines where the order needs them, else empty

  void add(const Action& action) { lines.push_back({action, -1, static_cast<std::int32_t>(lines.size())}); }
  void add_pair(const Action& action, const Action& second) {
    add(action);
    lines.back().second = static_cast<std::int32_t>(seconds.size());
    seconds.push_back(second);
  }
  [[nodiscard]] const Action* second_of(const Line& line) const {
    return line.second < 0 ? nullptr : &seconds[static_cast<std::size_t>(line.second)];
  }
  /// Calls visit(action) for the one or two actions of a line.
  template <class Visit>
  void for_each_action(const Line& line, Visit&& visit) const {
    visit(line.action);
    if (const Action* second = second_of(line)) visit(*second);
  }
};

using LineRows = IdVector<RankId, LineRow>;

/// The ranges in which rows are worked on at the same time.
[[nodiscard]] std::vector<RankRange> ranges_of(const LineRows& rows);

[[nodiscard]] InstructionForm form_of(const LineRow& row, const Line& line);

/// The `after` of a row by places instead of ids. Order: ascending, each once.
[[nodiscard]] std::vector<AfterEdge> edges_of_places(const LineRow& row);

[[nodiscard]] inline bool computes(const Line& line) {
  return info(line.action.kind).resource == Resource::compute;
}

}  // namespace ppsim::lowering
