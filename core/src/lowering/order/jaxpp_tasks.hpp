#pragma once

#include <vector>

#include "lowering/cell_rows.hpp"
#include "ppsim/core/ir/error.hpp"
#include "ppsim/core/ir/units.hpp"

namespace ppsim::lowering {

/// Consecutive cells of a row that JaxPP compiles as one.
struct JaxppTask {
  RankId rank;
  std::int32_t first = 0;  ///< place in the row
  std::int32_t cells = 1;
  Nanoseconds start = 0;  ///< in the latencies of JaxPP
};

/// The tasks of all ranks in the order of JaxPP: the task that can start first comes next, of the lowest rank
/// where several can, in latencies of 1 for F, I and W and 2 for B; then sorted by start and end. `start` is
/// counted again along this order, in which a task gives what it makes at its end.
///
/// An overlapped pair is a task. Where chunks lie round-robin, so is an F of the last stage with the B behind
/// it. Where the backward is split, the B of a stage gives its input gradient when half of it is over; that
/// of the first stage, which JaxPP does not split, counts 2 in the order and 1 in `start`.
/// Requires: rows of F, B, I, W, R and pairs of them, beside what belongs to updates, which is no task.
/// Errors: deadlock.
/// Source: reorder_nodes_with_schedule, infer_times and Interleaved1F1B of JaxPP 0.9.2.
[[nodiscard]] Expected<std::vector<JaxppTask>> jaxpp_tasks(const Pipeline& pipeline, const CellRows& rows);

}  // namespace ppsim::lowering
