#pragma once

#include <array>
#include <map>
#include <utility>
#include <vector>

#include "ppsim/core/ir/pipeline.hpp"
#include "ppsim/core/ir/tables.hpp"

namespace ppsim::test::placed {

/// The work of two ranks with several stages: F, I and W of each microbatch on each stage.
struct Job {
  Job(std::vector<RankId> ranks, int count, CostTable table);
  [[nodiscard]] int stages() const { return static_cast<int>(placement.size()); }
  [[nodiscard]] bool apart(int a, int b) const {
    return placement[static_cast<std::size_t>(a)] != placement[static_cast<std::size_t>(b)];
  }

  std::vector<RankId> placement;
  int microbatches;
  CostTable costs;
  std::vector<std::array<Nanoseconds, 3>> times;  ///< by stage and phase
  std::vector<std::array<Nanoseconds, 3>> lags;   ///< of the tensor that a pass reads
};

/// The shortest makespan and the shortest span by limit on live activations, over every order of both ranks:
/// by a few lines that share nothing with the search.
[[nodiscard]] std::map<int, std::pair<Nanoseconds, Nanoseconds>> exhaustive(const Job& job);

}  // namespace ppsim::test::placed
