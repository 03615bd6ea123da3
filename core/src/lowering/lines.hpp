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

/// The instructions of one rank, in issue order. At full size rows are most of the memory of a lowering, so
/// that nearly all lines are their action and nothing else.
class LineRow {
 public:
  std::vector<Action> seconds;
  std::vector<AfterEdge> after;
  LargeVector<Nanoseconds> times;  ///< parallel to the lines where the order needs them, else empty

  [[nodiscard]] std::size_t size() const { return actions_.size(); }
  [[nodiscard]] Line line(std::size_t i) const {
    if (names_.empty()) return {actions_[i], -1, static_cast<std::int32_t>(i)};
    return {actions_[i], names_[i].second, names_[i].id};
  }
  [[nodiscard]] const Action& action(std::size_t i) const { return actions_[i]; }
  /// The first of each line.
  [[nodiscard]] std::span<const Action> actions() const { return actions_; }

  void reserve(std::size_t lines) { actions_.reserve(lines); }
  void add(const Action& action) {
    if (!names_.empty()) names_.push_back({-1, static_cast<std::int32_t>(actions_.size())});
    actions_.push_back(action);
  }
  void add_pair(const Action& action, const Action& second) {
    add(action);
    name_lines();
    names_.back().second = static_cast<std::int32_t>(seconds.size());
    seconds.push_back(second);
  }
  void set_line(std::size_t i, const Line& line) {
    actions_[i] = line.action;
    if (!names_.empty()) names_[i] = {line.second, line.id};
  }
  /// Other lines in the place of all.
  void replace(const std::vector<Line>& lines);
  /// From now on lines keep their ids when they move. Without it an id is a place.
  void name_lines();

  [[nodiscard]] const Action* second_of(const Line& line) const {
    return line.second < 0 ? nullptr : &seconds[as_size(line.second)];
  }
  /// Calls visit(action) for the one or two actions of a line.
  template <class Visit>
  void for_each_action(const Line& line, Visit&& visit) const {
    visit(line.action);
    if (const Action* second = second_of(line)) visit(*second);
  }

 private:
  struct Name {
    std::int32_t second = -1;
    std::int32_t id = -1;
  };

  friend class LineWriter;

  LargeVector<Action> actions_;  ///< the first of each line
  std::vector<Name> names_;      ///< the rest of each line; empty where all are single and ids are places
};

/// Writes the lines of a row, one after another, into room for all of them.
class LineWriter {
 public:
  /// Requires: the row is empty, and outlives it. With `keep_times` each line has its time.
  LineWriter(LineRow& row, std::size_t room, bool keep_times) : row_(&row) {
    row.actions_.resize(room);
    next_ = row.actions_.data();
    if (!keep_times) return;
    row.times.resize(room);
    time_ = row.times.data();
  }

  /// Requires: room for the line.
  void add(const Action& action, Nanoseconds time) {
    *next_++ = action;
    if (time_ != nullptr) *time_++ = time;
  }
  void add_pair(const Action& action, const Action& second, Nanoseconds time) {
    pairs_.push_back(size());
    row_->seconds.push_back(second);
    add(action, time);
  }
  /// The lines that are written.
  [[nodiscard]] std::size_t size() const { return as_size(next_ - row_->actions_.data()); }
  /// Gives back the room that is left. The row has its lines from now on.
  void finish();

 private:
  LineRow* row_;
  Action* next_ = nullptr;
  Nanoseconds* time_ = nullptr;     ///< null without times
  std::vector<std::size_t> pairs_;  ///< lines of two actions
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
