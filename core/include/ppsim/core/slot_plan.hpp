#pragma once

#include <vector>

#include "ppsim/core/execution_graph.hpp"
#include "ppsim/core/tensors.hpp"

namespace ppsim {

/// Where each tensor lives in its rank's pool, the same in every timing: two tensors share bytes only if the
/// last use of one is complete before the first write of the other starts, in every timing.
struct SlotPlan {
  std::vector<Bytes> offset;           ///< per tensor of the table
  IdVector<RankId, Bytes> pool_bytes;  ///< per rank
};

/// What a slot plan is made of.
struct SlotRequest {
  const Program& program;
  const ExecutionGraph& graph;
  const RunOrder& order;  ///< complete
  const TensorTable& table;
  const std::vector<Bytes>& sizes;  ///< per tensor of the table
  Bytes alignment = 64;             ///< every offset is a multiple of it
};

/// A plan by best fit: never below the worst case of memory over all timings, and usually a few percent above
/// it at most.
[[nodiscard]] SlotPlan plan_slots(const SlotRequest& request);

}  // namespace ppsim
