#pragma once

#include <optional>
#include <vector>

#include "ppsim/core/execution/analyzed_program.hpp"
#include "ppsim/core/memory/slot_plan.hpp"

namespace ppsim::gpu_backend {

/// The tensors of a Program, bound to sizes, and where they lie in the pools.
struct MemoryPlan {
  TensorTable table;
  std::vector<Bytes> sizes;  ///< per tensor
  SlotPlan slots;
};

/// The limit is that of RunOptions. A Program that cannot finish has no order to share bytes by: then every
/// tensor has bytes of its own, and no limit counts. Throws: BackendError.
[[nodiscard]] MemoryPlan plan_memory(const AnalyzedProgram& analyzed, const SizeTable& sizes,
                                     std::optional<Bytes> limit);

}  // namespace ppsim::gpu_backend
