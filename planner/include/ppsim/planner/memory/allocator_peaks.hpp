#pragma once

#include "ppsim/planner/evaluate.hpp"

namespace ppsim::planner {

/// The largest figures of PyTorch's caching allocator on a rank.
struct AllocatorPeak {
  Bytes allocated = 0;  ///< in blocks of tensors (torch.cuda.max_memory_allocated)
  Bytes reserved = 0;   ///< in segments from the driver (torch.cuda.max_memory_reserved)
  friend bool operator==(const AllocatorPeak&, const AllocatorPeak&) = default;
};

/// The memory that the allocator takes on each rank where every tensor of the step is one block: tensors that
/// exist from the start first, then as the step's trace allocates and frees; at one instant it frees first.
/// Tensors within an action are not told apart, so what they fragment is not in it.
[[nodiscard]] IdVector<RankId, AllocatorPeak> allocator_peaks(const SimulatedStep& step);

}  // namespace ppsim::planner

namespace ppsim {
using planner::allocator_peaks;
using planner::AllocatorPeak;
}  // namespace ppsim
