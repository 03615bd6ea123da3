#pragma once

#include "synthesis/orders/list_rows.hpp"
#include "synthesis/orders/walk.hpp"

namespace ppsim::verifier::synthesis {

/// A search over the rules by which list_rows makes orders: it shifts the keys of whole strands, of strands
/// that are alike on all ranks, or of the tasks of a rank within a time window, and changes `max_wait` and
/// the limits of stages. One change of a strand moves all of its microbatches, where a Walk needs a step for
/// each of them.
class KeySearch {
 public:
  KeySearch(const Shop& shop, std::uint64_t seed) : shop_(shop), random_(seed), timed_(shop) {}

  /// Begins with keys that are the start times of rows, which TimedRows::assign must accept.
  void begin(const TaskRows& rows);
  /// Begins with keys by which microbatches follow each other steadily, each strand as early as possible.
  void begin_steady();
  /// As Walk::go; a list counts for kListSteps steps.
  void go(std::int64_t lists, Slot heat, Slot enough, Effort& effort);

  /// Requires: found().
  [[nodiscard]] const TaskRows& best() const { return best_; }
  [[nodiscard]] RowsValue value() const { return best_value_; }
  [[nodiscard]] bool found() const { return !best_.empty(); }

  static constexpr std::int64_t kListSteps = 16;

 private:
  void change(ListRules& rules);
  void shift_strand(ListRules& rules, int strand, Slot by) const;
  void shift_alike(ListRules& rules);
  void shift_while(ListRules& rules);
  bool try_rules(const ListRules& rules, Slot heat);
  void start_over();
  [[nodiscard]] Slot shift();

  const Shop& shop_;
  Random random_;
  TimedRows timed_;
  ListRules rules_;
  Slot now_ = 0;  ///< the objective under rules_
  bool listed_ = false;
  TaskRows best_;
  RowsValue best_value_;
};

}  // namespace ppsim::verifier::synthesis
