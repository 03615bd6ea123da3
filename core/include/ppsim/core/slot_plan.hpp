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

/// Requires: a complete run order. Every offset is a multiple of `alignment`.
[[nodiscard]] SlotPlan plan_slots(const Program& program, const ExecutionGraph& graph, const RunOrder& order,
                                  const TensorTable& table, const std::vector<Bytes>& sizes,
                                  Bytes alignment = 64);

}  // namespace ppsim
