#pragma once

#include <cstdint>
#include <vector>

#include "limits.hpp"
#include "ppsim/core/ir/units.hpp"

namespace ppsim::verifier {

/// A directed edge of a flow network.
struct Arc {
  std::uint32_t from = 0;
  std::uint32_t to = 0;
  Bytes capacity = 0;
};

/// A maximum flow and the minimum cut that proves it.
struct MaxFlow {
  Bytes value = 0;
  std::vector<Bytes> flow;        ///< per arc
  std::vector<char> source_side;  ///< per node: reachable from the source in the residual network
};

/// Maximum flow from node 0 to node 1 by Boykov and Kolmogorov's algorithm.
/// Source: "An experimental comparison of min-cut/max-flow algorithms", IEEE TPAMI 26 (2004).
/// Errors: throws LimitReached.
[[nodiscard]] MaxFlow max_flow(std::size_t nodes, const std::vector<Arc>& arcs, const Limits& limits);

}  // namespace ppsim::verifier
