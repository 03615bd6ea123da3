#pragma once

#include <boost/multiprecision/cpp_int.hpp>
#include <cstdint>
#include <vector>

#include "path_graph.hpp"
#include "ppsim/verifier/intervals/cost_space.hpp"

namespace ppsim::verifier {

using Integer = boost::multiprecision::cpp_int;

/// How often a path takes each cost: units of constant time, then each variable.
using PathVector = std::vector<std::int64_t>;

/// Values of the costs with a common denominator: the denominator, then the numerator of each variable.
using CostPoint = std::vector<Integer>;

[[nodiscard]] Integer dot(const PathVector& vector, const CostPoint& point);

/// The variables of a cost space that some action reads, in units in which all their bounds are whole.
struct CostBox {
  std::vector<int> variables;  ///< numbers in the space, ascending
  Nanoseconds unit = 1;
  std::vector<std::int64_t> least;  ///< in units
  std::vector<std::int64_t> most;

  [[nodiscard]] std::size_t dimension() const { return variables.size(); }
  /// The corner with the largest value of the variables of the mask.
  [[nodiscard]] CostPoint corner(const std::vector<bool>& largest) const;
};

/// A path graph whose costs are those of a box.
struct PricedPaths {
  PathGraph graph;
  std::vector<PathVector> costs;  ///< of each of graph.classes
};

/// The longest path for given costs, exactly.
struct LongestPath {
  Integer length;  ///< over the denominator of the point
  PathVector vector;
};

/// The box of two Programs, and both in its terms.
struct PricedPair {
  CostBox box;
  PricedPaths first;
  PricedPaths second;
};
[[nodiscard]] PricedPair price(PathGraph first, PathGraph second, const CostSpace& space);

[[nodiscard]] Integer length_at(const PricedPaths& paths, const CostPoint& point);
[[nodiscard]] LongestPath longest_at(const PricedPaths& paths, const CostPoint& point);

}  // namespace ppsim::verifier
