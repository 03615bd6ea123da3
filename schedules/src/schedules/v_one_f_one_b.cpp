#include <array>

#include "families/blocks/building_block.hpp"
#include "families/blocks/v_blocks.hpp"
#include "families/catalogue.hpp"
#include "families/placements.hpp"
#include "families/repetitions.hpp"

// 1F1B-V: the V placement with whole backwards, at two thirds of the activations of 1F1B. One interval of six
// slots holds F and B, of one and two slots, of both chunks. The block of the authors' code: F goes down and
// up the ranks without a pause; B follows at once, or three slots later where p is a multiple of 3, and
// pauses for three slots after every third stage, counted such that the pauses of both chunks fit together.

namespace ppsim::schedules::catalogue {
namespace {

constexpr std::string_view kName = "1f1b-v";
constexpr int kInterval = 6;
constexpr int kPause = 3;

BuildingBlock block_of(int ranks) {
  BuildingBlock block{.ranks = ranks, .interval = kInterval, .splits_backward = false, .stages = {}};
  int slot = 0;
  for (const RankId rank : folded_placement(ranks, 2)) {
    block.stages.push_back({.rank = rank, .forward = slot++, .weight = {}});
  }
  if (ranks % 3 == 0) slot += kPause;
  int since_pause = (6 - (ranks + 2) % 3) % 3;
  for (auto stage = block.stages.rbegin(); stage != block.stages.rend(); ++stage) {
    stage->backward = slot;
    slot += block.backward_slots();
    if (++since_pause % 3 == 0) slot += kPause;
  }
  return block;
}

Expected<Schedule> generate(const ScheduleParameters& parameters) {
  return repeat_block(std::string(kName), {block_of(parameters.ranks), parameters.microbatches});
}

/// Idle slots, computed for p = 2..16, 17, 18, 20, 21, 24, 27, 29, 30, 32, 33, 36 and 41; the paper has no
/// form.
int idle(int p) {
  if (p == 2) return 4;
  if (p == 3 || p == 9) return p == 3 ? 8 : 36;
  constexpr std::array kShort = {8, 5, 7};
  return 5 * p - kShort[as_size(p % 3)];
}

std::optional<Nanoseconds> time(const ScheduleParameters& parameters, const StageCosts& costs) {
  const int p = parameters.ranks;
  if (parameters.microbatches < 2 * p || costs.backward != 2 * costs.forward) return std::nullopt;
  if (costs.transfer > 0 && p > 1) return std::nullopt;
  return (Nanoseconds{kInterval} * parameters.microbatches + idle(p)) * costs.forward;
}

std::optional<int> peak(const ScheduleParameters& parameters, RankId) {
  if (parameters.microbatches < 2 * parameters.ranks) return std::nullopt;
  return (2 * parameters.ranks + 3) / 3 * 2;
}

}  // namespace

ScheduleInfo v_one_f_one_b() {
  ScheduleInfo info = v_block_info(kName, "1F1B on the V placement at two thirds of its activations");
  info.generate = generate;
  info.repetitions = repeats_once_filled;
  info.forms = {.makespan = time,
                .span = time,
                .peak_live_activations = peak,
                .bubble = "5(p-1)F for 3 | p+2, B = 2F",
                .peak = "2 floor((2p+3)/3)"};
  return info;
}

}  // namespace ppsim::schedules::catalogue
