#pragma once

#include <functional>

#include "synthesis/orders/key_search.hpp"

namespace ppsim::verifier::synthesis {

/// Is told of rows that are shorter than all before. Returns: whether they are within the limit.
using RowsSink = std::function<bool(const TaskRows&, const char* method)>;

/// Looks for short orders of any placement in rounds, each longer than the one before: a walk from the best
/// rows, a search of the rules for lists, a walk from what that found. The same for a seed and a number of
/// steps.
class OrderSearch {
 public:
  OrderSearch(const Shop& shop, std::uint64_t seed);

  /// Rows to start from. Returns: false where they wait for each other or take too much room.
  bool offer(const TaskRows& rows);
  /// Lists of a few simple rules.
  void make_lists();
  /// Until the best objective is `enough` or the effort is over. Returns: false, at once, where rows that
  /// were found are not within the limit.
  bool run(Slot enough, Effort& effort, const RowsSink& found);

  [[nodiscard]] bool empty() const { return best_.empty(); }
  [[nodiscard]] const TaskRows& best() const { return best_; }
  [[nodiscard]] RowsValue value() const { return value_; }

 private:
  bool round(Slot enough, Effort& effort, const RowsSink& found);
  bool better(const TaskRows& rows, RowsValue value);
  [[nodiscard]] Slot usual_duration() const;

  const Shop& shop_;
  Random random_;
  TaskRows best_;
  RowsValue value_;
  std::int64_t length_;  ///< steps of a walk of the next round
  std::size_t rounds_ = 0;
};

}  // namespace ppsim::verifier::synthesis
