#pragma once

#include <optional>
#include <span>
#include <vector>

#include "synthesis/orders/shop.hpp"

namespace ppsim::verifier::synthesis {

/// How good rows are: the objective counts first, then how early the ranks are done in the mean.
struct RowsValue {
  Slot objective = 0;
  Slot mean_end = 0;
  friend auto operator<=>(const RowsValue&, const RowsValue&) = default;
};

/// Rows within the room of their ranks, and the earliest times of their tasks. A change of one row is tried,
/// then kept or undone; only tasks that start after it are timed again.
class TimedRows {
 public:
  explicit TimedRows(const Shop& shop);

  /// Returns: false, and keeps nothing, where rows wait for each other or take too much room.
  bool assign(const TaskRows& rows);

  /// Puts `window` into the places of the row of a rank from `from` on, which must hold the same tasks.
  /// Returns: the value of the rows then; nothing, and all is as before, where they wait for each other,
  /// take too much room, or the objective is above `most`.
  std::optional<RowsValue> attempt(int rank, int from, std::span<const int> window, Slot most);
  /// Keeps what was tried last, which must have a value.
  void keep();
  /// Undoes what was tried last, which must have a value.
  void undo();

  [[nodiscard]] const TaskRows& rows() const { return rows_; }
  [[nodiscard]] const std::vector<int>& row(int rank) const { return rows_[as_size(rank)]; }
  [[nodiscard]] RowsValue value() const { return value_; }
  [[nodiscard]] int place(int task) const { return places_[as_size(task)]; }
  [[nodiscard]] Slot end(int task) const { return ends_[as_size(task)]; }
  [[nodiscard]] Slot start(int task) const { return end(task) - shop_.strand_of(task).duration; }
  /// The memory that a rank holds before a place of its row.
  [[nodiscard]] Bytes held_before(int rank, int place) const { return held_[as_size(rank)][as_size(place)]; }

 private:
  /// How far a rank has come.
  struct Cursor {
    int place = 0;
    Slot free = 0;
    Slot left = 0;  ///< work behind the place
    int waits_for = -1;
  };

  bool fits(int rank, int from, std::span<const int> window) const;
  void put(int rank, int from, std::span<const int> window);
  void start_behind(int rank, int from);
  bool run(Slot most);
  bool run_rank(int rank, Slot most);
  [[nodiscard]] RowsValue value_of_trial() const;
  void hold_again(int rank, int from, int count);

  const Shop& shop_;
  TaskRows rows_;
  std::vector<int> places_;               // by task
  std::vector<std::vector<Bytes>> held_;  // by rank and place, as after the last that was kept
  std::vector<Slot> ends_;                // by task
  std::vector<Slot> trial_ends_;
  std::vector<std::vector<Slot>> done_;  // by rank and place: work before it, after the last that was kept
  RowsValue value_;
  RowsValue trial_value_;
  int trial_rank_ = 0;
  int trial_from_ = 0;
  std::vector<int> before_trial_;  // the window
  std::vector<Cursor> cursors_;
  std::vector<int> ready_;  // ranks that may go on
};

}  // namespace ppsim::verifier::synthesis
