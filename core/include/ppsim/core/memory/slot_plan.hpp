#pragma once

#include <cstddef>
#include <functional>
#include <limits>
#include <optional>
#include <vector>

#include "ppsim/core/execution/analyzed_program.hpp"

namespace ppsim {

/// Where each tensor lives in its rank's pool, the same in every timing: two tensors share bytes only if the
/// last use of one is complete before the first write of the other starts, in every timing.
struct SlotPlan {
  std::vector<Bytes> offset;           ///< per tensor of the table
  IdVector<RankId, Bytes> pool_bytes;  ///< per rank
};

/// Where a tensor may start: every offset of a plan is a multiple of it. Units: bytes.
inline constexpr Bytes kSlotAlignment = 64;

/// The smallest plan that a search of bounded length finds, the same on every machine: never below the worst
/// case of memory over all timings. Bytes lie in one piece, so there need not be a plan as small as that.
/// It follows from the guaranteed waits alone, so it is the same for every transport that has these.
/// `sizes`: per tensor of the Program's table. Requires: the Program finishes.
[[nodiscard]] SlotPlan plan_slots(const AnalyzedProgram& analyzed, const std::vector<Bytes>& sizes);

/// Limits on the making of a plan.
struct SlotLimits {
  /// Pairs of tensors of a rank, all ranks together, that may be alive at once: with many it takes long.
  std::size_t max_conflicts = std::numeric_limits<std::size_t>::max();
  std::function<bool()> stopped = {};  ///< polled: whether it is too late for a plan
};

/// The same plan, nothing where the limits do not suffice. Offsets are multiples of `alignment`.
/// Requires: the Program finishes, alignment >= 1.
[[nodiscard]] std::optional<SlotPlan> plan_slots_within(const AnalyzedProgram& analyzed,
                                                        const std::vector<Bytes>& sizes,
                                                        const SlotLimits& limits,
                                                        Bytes alignment = kSlotAlignment);

}  // namespace ppsim
