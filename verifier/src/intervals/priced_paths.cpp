#include "priced_paths.hpp"

#include <limits>
#include <numeric>
#include <set>

namespace ppsim::verifier {
namespace {

CostBox box_of(const PathGraph& first, const PathGraph& second, const CostSpace& space) {
  std::set<int> read;
  CostBox box;
  box.unit = 0;
  for (const PathGraph* graph : {&first, &second}) {
    for (const CostClass& cost_class : graph->classes) {
      const LinearCost& cost = space(cost_class);
      box.unit = std::gcd(box.unit, cost.constant);
      for (const auto& [variable, coefficient] : cost.coefficients) read.insert(variable);
    }
  }
  box.variables.assign(read.begin(), read.end());
  for (const int v : box.variables) {
    const CostVariable& variable = space.variables()[as_size(v)];
    box.unit = std::gcd(std::gcd(box.unit, variable.least), variable.most);
  }
  box.unit = std::max<Nanoseconds>(box.unit, 1);
  for (const int v : box.variables) {
    box.least.push_back(space.variables()[as_size(v)].least / box.unit);
    box.most.push_back(space.variables()[as_size(v)].most / box.unit);
  }
  return box;
}

PricedPaths priced(PathGraph graph, const CostBox& box, const CostSpace& space) {
  PricedPaths paths{std::move(graph), {}};
  for (const CostClass& cost_class : paths.graph.classes) {
    const LinearCost& cost = space(cost_class);
    PathVector vector{cost.constant / box.unit};
    for (const int v : box.variables) {
      const auto coefficient = cost.coefficients.find(v);
      vector.push_back(coefficient == cost.coefficients.end() ? 0 : coefficient->second);
    }
    paths.costs.push_back(std::move(vector));
  }
  return paths;
}

std::vector<Integer> durations_at(const PricedPaths& paths, const CostPoint& point) {
  std::vector<Integer> durations;
  for (const PathVector& cost : paths.costs) durations.push_back(dot(cost, point));
  return durations;
}

/// Whether no sum of durations along a path can be beyond 64 bits.
bool is_small(const PathGraph& graph, const std::vector<Integer>& durations) {
  Integer largest = 0;
  for (const Integer& duration : durations) largest = std::max(largest, duration);
  return largest * graph.points.size() <= std::numeric_limits<std::int64_t>::max();
}

/// Calls `use` with the times of all points, in 64 bits where that is enough.
template <class Use>
auto with_times(const PricedPaths& paths, const CostPoint& point, Use use) {
  const std::vector<Integer> durations = durations_at(paths, point);
  if (!is_small(paths.graph, durations)) return use(end_times(paths.graph, durations));
  std::vector<std::int64_t> small;
  for (const Integer& duration : durations) small.push_back(static_cast<std::int64_t>(duration));
  return use(end_times(paths.graph, small));
}

}  // namespace

Integer dot(const PathVector& vector, const CostPoint& point) {
  Integer sum = 0;
  for (std::size_t i = 0; i < vector.size(); ++i) sum += vector[i] * point[i];
  return sum;
}

CostPoint CostBox::corner(const std::vector<bool>& largest) const {
  CostPoint point{1};
  for (std::size_t i = 0; i < dimension(); ++i) point.emplace_back(largest[i] ? most[i] : least[i]);
  return point;
}

PricedPair price(PathGraph first, PathGraph second, const CostSpace& space) {
  CostBox box = box_of(first, second, space);
  PricedPaths priced_first = priced(std::move(first), box, space);
  PricedPaths priced_second = priced(std::move(second), box, space);
  return {std::move(box), std::move(priced_first), std::move(priced_second)};
}

Integer length_at(const PricedPaths& paths, const CostPoint& point) {
  return with_times(paths, point, [&](const auto& ends) { return Integer(ends[paths.graph.end]); });
}

LongestPath longest_at(const PricedPaths& paths, const CostPoint& point) {
  return with_times(paths, point, [&](const auto& ends) {
    LongestPath longest{Integer(ends[paths.graph.end]), PathVector(point.size(), 0)};
    for (const std::uint32_t at : longest_path(paths.graph, ends)) {
      const PathVector& cost = paths.costs[as_size(paths.graph.points[at].cost_class)];
      for (std::size_t i = 0; i < cost.size(); ++i) longest.vector[i] += cost[i];
    }
    return longest;
  });
}

}  // namespace ppsim::verifier
