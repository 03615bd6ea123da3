#pragma once

#include <cstdint>
#include <vector>

#include "conflict_graph.hpp"
#include "ppsim/core/ir/units.hpp"

namespace ppsim {

/// Addresses of the nodes of a ConflictGraph: two that conflict share no byte.
struct Placement {
  std::vector<Bytes> offset;  ///< per node
  Bytes pool = 0;             ///< the largest end
};

/// When a search for a smaller pool ends.
struct SearchLimits {
  Bytes enough = 0;        ///< no pool can be smaller
  std::uint64_t work = 0;  ///< conflicts and blocks looked at; two orders are tried in any case
};

/// The smallest pool that is found by placing one node after another in several orders, moving everything to
/// the one end and back to the other, and placing earlier what ends at the top. `sizes` per node.
[[nodiscard]] Placement find_placement(const ConflictGraph& graph, const std::vector<Bytes>& sizes,
                                       const SearchLimits& limits);

}  // namespace ppsim
