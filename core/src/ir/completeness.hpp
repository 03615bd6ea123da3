#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "ppsim/core/ir/pipeline.hpp"

namespace ppsim {

/// Counts the actions of every (stage, microbatch, slice) and says what is missing or doubled: one F
/// everywhere; where anything runs backward, one B or one I and one W everywhere.
class Completeness {
 public:
  explicit Completeness(const Pipeline& pipeline);

  /// Several may count at the same time, each the actions of other stages.
  /// Requires: ids in range. Kinds other than F, B, I, W and R are ignored.
  void count(const Action& action) {
    if (is_pass(action.kind) || action.kind == OpKind::recompute)
      increment(action.kind, cells_[cell_of(action)]);
  }
  /// Calls report(rank of the stage, text) for every broken rule, by stage, microbatch, slice.
  void check(const std::function<void(RankId, const std::string&)>& report) const;

 private:
  struct Cell {
    std::uint8_t forward = 0, backward = 0, input = 0, weight = 0, recompute = 0;
  };
  [[nodiscard]] std::size_t cell_of(const Action& action) const {
    const auto microbatches = as_size(pipeline_.microbatches());
    return (action.stage().index() * microbatches + action.mb().index()) * as_size(pipeline_.slices()) +
           action.slice;
  }
  static bool is_complete(const Cell& cell, bool runs_backward);
  void increment(OpKind kind, Cell& cell);
  void check_cell(const Cell& cell, const Action& at,
                  const std::function<void(const std::string&)>& report) const;

  const Pipeline& pipeline_;
  std::vector<Cell> cells_;
  std::atomic<bool> runs_backward_ = false;
};

}  // namespace ppsim
