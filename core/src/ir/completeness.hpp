#pragma once

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

  /// Requires: ids in range. Kinds other than F, B, I, W and R are ignored.
  void count(const Action& action);
  /// Calls report(rank of the stage, text) for every broken rule, by stage, microbatch, slice.
  void check(const std::function<void(RankId, const std::string&)>& report) const;

 private:
  struct Cell {
    std::uint8_t forward = 0, backward = 0, input = 0, weight = 0, recompute = 0;
  };
  [[nodiscard]] std::size_t cell_of(const Action& action) const;
  void check_cell(const Cell& cell, const Action& at,
                  const std::function<void(const std::string&)>& report) const;

  const Pipeline& pipeline_;
  std::vector<Cell> cells_;
  bool runs_backward_ = false;
};

}  // namespace ppsim
