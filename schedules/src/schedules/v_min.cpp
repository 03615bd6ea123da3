#include <algorithm>

#include "families/blocks/building_block.hpp"
#include "families/blocks/v_blocks.hpp"
#include "families/catalogue.hpp"
#include "families/repetitions.hpp"

// V-Min: a third of the activations of 1F1B, the least that the V placement can have without idle time in the
// steady state. The block of the paper's section 3 and of the authors' code: rank r starts F and I of its
// chunks at r, 2p-r-1, 2p+d+r and 4p+d-r-1, every six slots, d = 2 where p is a multiple of 3 and else 0; W
// takes the slots that are left.

namespace ppsim::schedules::catalogue {
namespace {

constexpr std::string_view kName = "v-min";

VBlockOffsets offsets(int ranks, int rank) {
  const int shift = ranks % 3 == 0 ? 2 : 0;
  return {rank, 2 * ranks - rank - 1, 2 * ranks + shift + rank, 4 * ranks + shift - rank - 1};
}

Expected<Schedule> generate(const ScheduleParameters& parameters) {
  return repeat_block(std::string(kName), {v_block(parameters.ranks, offsets), parameters.microbatches});
}

/// Idle slots of a rank's span, whatever m >= 2p.
int bubble(int p) { return std::max(0, 4 * p - (p % 3 == 0 ? 7 : 5)); }

std::optional<Nanoseconds> span(const ScheduleParameters& parameters, const StageCosts& costs) {
  return v_block_span(parameters, costs, bubble(parameters.ranks));
}

std::optional<int> peak(const ScheduleParameters& parameters, RankId rank) {
  if (parameters.microbatches < 2 * parameters.ranks) return std::nullopt;
  const int most = (parameters.ranks + 4) / 3 * 2;
  return rank.value() == 0 && parameters.ranks % 3 == 2 ? most - 1 : most;
}

}  // namespace

ScheduleInfo v_min() {
  ScheduleInfo info = v_block_info(kName, "V placement at a third of the activations of 1F1B");
  info.splits_backward = true;
  info.generate = generate;
  info.repetitions = repeats_once_filled;
  info.forms = {.span = span,
                .peak_live_activations = peak,
                .bubble = "(4p - 7 + 2 ceil((p mod 3)/3))F for p >= 2, F = I, I = W",
                .peak = "2 floor((p+4)/3)"};
  return info;
}

}  // namespace ppsim::schedules::catalogue
