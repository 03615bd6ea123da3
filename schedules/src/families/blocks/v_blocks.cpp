#include "v_blocks.hpp"

namespace ppsim::schedules {
namespace {

constexpr int kInterval = 6;

}  // namespace

BuildingBlock v_block(int ranks, VBlockOffsets (*offsets)(int ranks, int rank)) {
  BuildingBlock block{.ranks = ranks, .interval = kInterval, .stages = {}};
  for (int s = 0; s < 2 * ranks; ++s) {
    const bool down = s < ranks;
    const int rank = down ? s : 2 * ranks - 1 - s;
    const VBlockOffsets at = offsets(ranks, rank);
    block.stages.push_back({.rank = RankId(rank),
                            .forward = down ? at.forward_down : at.forward_up,
                            .backward = down ? at.backward_up : at.backward_down,
                            .weight = {}});
  }
  return block;
}

std::optional<Nanoseconds> v_block_span(const ScheduleParameters& parameters, const StageCosts& costs,
                                        int bubble) {
  const Nanoseconds slot = costs.forward;
  const bool even = costs.backward_input == slot && costs.backward_weight == slot;
  if (!even || (costs.transfer > 0 && parameters.ranks > 1)) return std::nullopt;
  if (parameters.microbatches < 2 * parameters.ranks) return std::nullopt;
  return (Nanoseconds{kInterval} * parameters.microbatches + bubble) * slot;
}

ScheduleInfo v_block_info(std::string_view name, std::string_view summary) {
  return {
      .name = name,
      .summary = summary,
      .paper = kControllableMemory,
      .placement = "stage s on rank s, stage 2p-1-s on rank s",
      .constraints = "any ranks and microbatches",
      .max_ranks = 1024,
      .default_chunks = 2,
      .min_chunks = 2,
      .max_chunks = 2,
      .settings = {},
      .generate = nullptr,
      .forms = {},
  };
}

}  // namespace ppsim::schedules
