#pragma once

#include <vector>

#include "ppsim/core/ir/schedule.hpp"

namespace ppsim::schedules {

// Orders of ranks with several chunks, chunk c of rank r being stage c p + r: the microbatches go in groups;
// a rank runs a group through its first chunk, then through its second, and so on.

/// As many groups of at least `ranks` microbatches as there can be, alike or the larger ones first.
[[nodiscard]] std::vector<int> even_groups(int ranks, int microbatches);

/// Groups of `size`; the last is smaller, or joins the one before it where it would be smaller than `ranks`.
/// Requires: size <= microbatches.
[[nodiscard]] std::vector<int> groups_of(int size, int ranks, int microbatches);

/// A microbatch on a chunk.
struct Turn {
  int chunk = 0;
  int microbatch = 0;
};
/// The order in which a rank's chunks take their microbatches.
[[nodiscard]] std::vector<Turn> turns_of(const std::vector<int>& groups, int chunks);

/// How the ranks of a schedule of looped chunks run.
struct ChunkOrder {
  int ranks = 1;
  int chunks = 1;
  int microbatches = 1;          ///< turns of further microbatches are left out
  bool splits_backward = false;  ///< I and W in place of B
  int weight_delay = 0;          ///< W follows the I of so many turns later, or the last I
  std::vector<Turn> turns;
};

/// Appends a rank's row: the F of the first `warmup` turns; then F and backward in turn, the backwards
/// through the chunks from the last to the first; then the backwards that are left.
void add_row(ScheduleBuilder& builder, const ChunkOrder& order, RankId rank, int warmup);

}  // namespace ppsim::schedules
