#pragma once

#include <algorithm>
#include <vector>

#include "ppsim/core/ir/pipeline.hpp"
#include "ppsim/core/ir/sequences.hpp"

namespace ppsim::lowering {

/// Dense numbers of the edges of a stage graph, side edges included.
class EdgeNumbers {
 public:
  explicit EdgeNumbers(const Pipeline& pipeline) : edges_(pipeline.spec().edges) {
    const auto& side = pipeline.spec().side_edges;
    append_all(edges_, side);
    std::ranges::sort(edges_);
    first_.assign(as_size(pipeline.stages()) + 1, 0);
    for (const StageEdge& edge : edges_) ++first_[edge.from.index() + 1];
    for (std::size_t s = 0; s + 1 < first_.size(); ++s) first_[s + 1] += first_[s];
  }

  [[nodiscard]] std::size_t count() const { return edges_.size(); }
  /// Requires: the edge exists.
  [[nodiscard]] std::size_t operator()(StageId from, StageId to) const {
    std::size_t edge = first_[from.index()];
    while (edges_[edge].to != to) ++edge;
    return edge;
  }

 private:
  std::vector<StageEdge> edges_;  // sorted by (from, to)
  std::vector<std::size_t> first_;
};

}  // namespace ppsim::lowering
