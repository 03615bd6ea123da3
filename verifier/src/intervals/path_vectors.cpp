#include <algorithm>

#include "compare_methods.hpp"

namespace ppsim::verifier {
namespace {

__extension__ using Wide = __int128;

/// Whether a is at most b for all costs of the box.
bool is_dominated(const PathVector& a, const PathVector& b, const CostBox& box) {
  Wide most = a[0] - b[0];
  for (std::size_t i = 0; i < box.dimension(); ++i) {
    const std::int64_t more = a[i + 1] - b[i + 1];
    most += Wide{more} * (more > 0 ? box.most[i] : box.least[i]);
  }
  return most <= 0;
}

/// Keeps of equals one, and of others those that no other one dominates.
void add_undominated(std::vector<PathVector>& kept, PathVector vector, const CostBox& box) {
  for (const PathVector& other : kept) {
    if (is_dominated(vector, other, box)) return;
  }
  std::erase_if(kept, [&](const PathVector& other) { return is_dominated(other, vector, box); });
  kept.push_back(std::move(vector));
}

}  // namespace

std::optional<std::vector<PathVector>> path_vectors(const PricedPaths& paths, const CostBox& box,
                                                    std::size_t limit, const Deadline& deadline) {
  const PathGraph& graph = paths.graph;
  std::vector<std::vector<PathVector>> sets;
  sets.reserve(graph.points.size());
  for (const PathPoint& point : graph.points) {
    std::vector<PathVector> kept;
    for (const std::uint32_t before : graph.before_of(point)) {
      for (const PathVector& vector : sets[before]) add_undominated(kept, vector, box);
      if (kept.size() > limit || deadline.over()) return std::nullopt;
    }
    if (sets.empty()) kept.emplace_back(box.dimension() + 1, 0);
    if (point.cost_class != PathPoint::kNoCost) {
      const PathVector& cost = paths.costs[as_size(point.cost_class)];
      for (PathVector& vector : kept) std::ranges::transform(vector, cost, vector.begin(), std::plus());
    }
    sets.push_back(std::move(kept));
  }
  return std::move(sets[graph.end]);
}

}  // namespace ppsim::verifier
