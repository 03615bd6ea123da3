#include <algorithm>

#include "families/blocks/building_block.hpp"
#include "families/blocks/v_blocks.hpp"
#include "families/catalogue.hpp"
#include "families/repetitions.hpp"

// V-Half: half the activations of 1F1B. The block of the paper's section 3 and of the authors' code: rank r
// starts F and I of its chunks at 2r, 3p-r-2, 3p+d+2r-1 and 6p+d-r-2, every six slots, d = 3 for even p and 0
// for odd p; W takes the slots that are left.

namespace ppsim::schedules::catalogue {
namespace {

constexpr std::string_view kName = "v-half";

VBlockOffsets offsets(int ranks, int rank) {
  const int shift = ranks % 2 == 0 ? 3 : 0;
  return {2 * rank, 3 * ranks - rank - 2, 3 * ranks + shift + 2 * rank - 1, 6 * ranks + shift - rank - 2};
}

Expected<Schedule> generate(const ScheduleParameters& parameters) {
  return repeat_block(std::string(kName), {v_block(parameters.ranks, offsets), parameters.microbatches});
}

/// Idle slots of a rank's span, whatever m >= 2p.
int bubble(int p) { return std::max(p - 1, 3 * p - 7 + 3 * (p % 2)); }

std::optional<Nanoseconds> span(const ScheduleParameters& parameters, const StageCosts& costs) {
  return v_block_span(parameters, costs, bubble(parameters.ranks));
}

std::optional<int> peak(const ScheduleParameters& parameters, RankId) {
  return std::min(2 * parameters.microbatches, (parameters.ranks + 2) / 2 * 2);
}

}  // namespace

ScheduleInfo v_half() {
  ScheduleInfo info = v_block_info(kName, "V placement at half the activations of 1F1B");
  info.splits_backward = true;
  info.generate = generate;
  info.repetitions = repeats_once_filled;
  info.forms = {.span = span,
                .peak_live_activations = peak,
                .bubble = "(3p - 7 + 3(p mod 2))F for p >= 3, F = I, I = W",
                .peak = "min(2m, 2 floor((p+2)/2))"};
  return info;
}

}  // namespace ppsim::schedules::catalogue
