#pragma once

#include <string_view>

#include "building_block.hpp"
#include "ppsim/schedules/registry.hpp"

namespace ppsim::schedules {

inline constexpr std::string_view kControllableMemory =
    "Qi et al., Pipeline parallelism with controllable memory, NeurIPS 2024, arXiv 2405.15362";

/// Slots of microbatch 0 on a rank of the V placement, where one interval is six slots.
struct VBlockOffsets {
  int forward_down = 0;   ///< F of the rank's first chunk
  int forward_up = 0;     ///< F of its second
  int backward_down = 0;  ///< I of its second chunk
  int backward_up = 0;    ///< I of its first
};

/// The block of a V placement whose W take the slots that are left.
[[nodiscard]] BuildingBlock v_block(int ranks, VBlockOffsets (*offsets)(int ranks, int rank));

/// 6m + bubble slots, where a slot is the common time of F, I and W, there are no transfer times and m >= 2p.
[[nodiscard]] std::optional<Nanoseconds> v_block_span(const ScheduleParameters& parameters,
                                                      const StageCosts& costs, int bubble);

/// The row of a schedule that repeats a block of a V placement, without `generate` and `forms`.
[[nodiscard]] ScheduleInfo v_block_info(std::string_view name, std::string_view summary);

}  // namespace ppsim::schedules
