#pragma once

#include <map>

#include "layers/layer_times.hpp"
#include "ppsim/workload/analytic.hpp"

namespace ppsim::workload {

/// Parameters that one GPU of a pipeline rank holds.
struct RankParameters {
  double dense = 0;  ///< but for experts
  double expert = 0;
  bool tied = false;  ///< of an embedding that another rank holds, too
  int copies = 1;     ///< pipeline ranks that hold the same stages, as in bidirectional schedules
};

/// GPUs that hold the same parameters, and the same experts.
[[nodiscard]] double replicas(const Parallelism& parallelism);
[[nodiscard]] double expert_replicas(const Workload& workload);

/// Of every block, on each rank that holds it.
using BlockParameters = std::map<BlockId, RankParameters>;

/// Sets the copies of every block.
void count_copies(const Pipeline& pipeline, BlockParameters& blocks);

/// The end of the step on every rank, for all blocks that it holds.
[[nodiscard]] IdVector<RankId, StepEnd> step_ends(const Workload& workload, const LayerTimer& timer,
                                                  const Pipeline& pipeline, const BlockParameters& blocks);

/// Reduction and update of a rank's parameters.
[[nodiscard]] StepEnd step_end(const Workload& workload, const LayerTimer& timer, const RankParameters& rank);

}  // namespace ppsim::workload
