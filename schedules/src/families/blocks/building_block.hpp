#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ppsim/core/ir/pipeline.hpp"
#include "ppsim/core/ir/schedule.hpp"

namespace ppsim::schedules {

/// The slots in which the actions of microbatch 0 on one stage start. F, I and W take one slot, B takes two.
struct BlockStage {
  RankId rank;
  int forward = 0;
  int backward = 0;           ///< I, or B where the backward is whole
  std::optional<int> weight;  ///< W; without it the W of a rank take its idle slots, first in first out
};

/// The actions of one microbatch with rank and slot, in a schedule that repeats them every `interval` slots.
/// Source: Qi et al., Pipeline parallelism with controllable memory, arXiv 2405.15362, section 2.
struct BuildingBlock {
  int ranks = 1;
  int interval = 1;
  bool splits_backward = true;     ///< I and W in place of B
  std::vector<BlockStage> stages;  ///< the chain, in its order

  [[nodiscard]] int backward_slots() const { return splits_backward ? 1 : 2; }
};

/// Reasons why a block cannot be repeated, a line each: work of a rank that does not fit the interval, an
/// action before one that it needs, two actions of a rank in one slot of the interval. Where W have slots,
/// all stages must have some.
[[nodiscard]] std::string broken_rules(const BuildingBlock& block);

/// Actions that may move in the warm-up and the cool-down.
enum class Reordering : std::uint8_t {
  none,   ///< nothing: the order of the repeated block
  ranks,  ///< those that do not raise the peak of their rank
  peak,   ///< those that do not raise the largest peak of all ranks, as in the paper
};

struct RepeatedBlockSpec {
  BuildingBlock block;
  int microbatches = 1;
  Reordering reordering = Reordering::peak;
};

/// Repeats the block for each microbatch, moves what stands in the warm-up and in the cool-down to the
/// earliest slots that keep the peak, and drops the idle time (section 2: repeating, squeezing,
/// reordering).
///
/// Requires: broken_rules(block) is empty. Order: O(actions), for the moved ones times the slots of a block.
[[nodiscard]] Expected<Schedule> repeat_block(const std::string& name, const RepeatedBlockSpec& spec);

}  // namespace ppsim::schedules
