#pragma once

#include <cmath>
#include <vector>

#include "ppsim/core/ir/pipeline.hpp"
#include "ppsim/core/ir/sequences.hpp"

namespace ppsim::gpu_backend {

/// Ranks with a share of a block, ascending.
[[nodiscard]] inline std::vector<RankId> ranks_of(const Pipeline& pipeline, BlockId block) {
  std::vector<RankId> ranks;
  for (const StageId stage : pipeline.spec().blocks[block].stages) ranks.push_back(pipeline.rank_of(stage));
  sort_unique(ranks);
  return ranks;
}

/// The factor that brings gradients of this squared norm to the largest norm allowed; 1 for those within it.
[[nodiscard]] inline double clip_scale(double squared_norm, double largest) {
  const double norm = std::sqrt(squared_norm);
  return norm > largest ? largest / norm : 1.0;
}

}  // namespace ppsim::gpu_backend
