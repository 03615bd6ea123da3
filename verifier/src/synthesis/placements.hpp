#pragma once

#include <vector>

#include "ppsim/core/ir/ids.hpp"

namespace ppsim::verifier::synthesis {

/// The rank of each stage.
using Placement = std::vector<RankId>;

/// Stage s on rank s modulo `ranks`.
[[nodiscard]] Placement loop_placement(int ranks, int chunks);

/// All placements of `chunks` stages on each rank, ranks numbered in the order of their first stages; empty
/// where there are more than `limit`.
[[nodiscard]] std::vector<Placement> all_placements(int ranks, int chunks, std::size_t limit);

/// `chunks` stages one after the other on each rank, as if `shift` stages were before the first.
[[nodiscard]] Placement placement_of_blocks(int ranks, int chunks, int shift);

/// The same placement with its ranks numbered in the order of their first stages.
[[nodiscard]] Placement renumbered(const Placement& placement);

}  // namespace ppsim::verifier::synthesis
