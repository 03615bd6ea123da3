#pragma once

#include <vector>

#include "ppsim/core/ir/pipeline.hpp"

namespace ppsim::schedules {

/// Stages that run down the ranks and back up, chunk after chunk: chunk c of rank r is stage c p + r for even
/// c and c p + p - 1 - r for odd c. Two chunks are a V, four a W.
[[nodiscard]] std::vector<RankId> folded_placement(int ranks, int chunks);

/// Two chains through the same parameter blocks: stages [0, S/2), placed as `down` says, with the
/// microbatches [0, M/2); stages [S/2, S), on the mirrored ranks, with the others. Stage s and stage S/2 + s
/// share a block. Requires: an even number of microbatches.
[[nodiscard]] Expected<Pipeline> make_bidirectional(int ranks, int microbatches,
                                                    const std::vector<RankId>& down);

}  // namespace ppsim::schedules
