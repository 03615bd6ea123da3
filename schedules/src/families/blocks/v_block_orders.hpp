#pragma once

#include <vector>

#include "families/orders/v_order.hpp"

namespace ppsim::schedules {

/// A block of the V placement: first slots of F down, F up, I down and I up of microbatch 0 on each rank.
struct VBlock {
  std::vector<std::array<int, 4>> offsets;
  int interval = 6;
};

/// The most activations of one stage that a rank holds while the block repeats, W in the slots that it has
/// left.
[[nodiscard]] int repeated_peak(const VBlock& block);

/// Blocks of six slots whose peak is at most `limit`, the highest peak first, at most `count`: what goes down
/// the ranks passes one every k slots, k less or the same from some rank on, and what goes up one every slot.
/// Source: 2405.15362, section 3.1 and appendix A.
[[nodiscard]] std::vector<VBlock> uniform_blocks(int ranks, int limit, int count);

/// The block without pauses, at the shortest interval that keeps the limit for so many microbatches.
[[nodiscard]] VBlock stretched_block(int ranks, int microbatches, int limit);

/// How the warm-up and the cool-down of a repeated block are put.
struct VEnds {
  /// Before the first I of the way up: first F alone, then F of both ways in turn, then I, W and F in turn.
  bool even_begin = false;
  /// The last I of both ways follow each other as closely as they can, every second slot, and no sooner.
  bool tight_end = false;
};

/// The order of the repeated block; W where it has slots left.
[[nodiscard]] VOrder repeated_order(const VBlock& block, int microbatches, const VEnds& ends);

}  // namespace ppsim::schedules
