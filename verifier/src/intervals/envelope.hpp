#pragma once

#include <boost/dynamic_bitset.hpp>
#include <vector>

#include "priced_paths.hpp"

namespace ppsim::verifier {

/// The largest of some linear functions over a box, by the vertices of the region above it.
///
/// Between these vertices it is linear: a convex function less this one is largest at a vertex.
class Envelope {
 public:
  /// (x, t) with t = the largest of the functions at x; both over the denominator of x.
  struct Vertex {
    CostPoint point;
    Integer height;
    boost::dynamic_bitset<> tight;  ///< sides of the box and functions that it lies on
  };

  /// Of one function. Units: those of the box.
  Envelope(const CostBox& box, const PathVector& first);

  /// Adds a function. Only vertices below it go, and what comes stands at the end.
  void add(const PathVector& function);

  [[nodiscard]] const std::vector<Vertex>& vertices() const { return vertices_; }

 private:
  using Side = boost::dynamic_bitset<>;

  [[nodiscard]] bool are_neighbours(const Side& a, const Side& b) const;
  void add_between(const Vertex& above, const Vertex& below, const PathVector& function,
                   std::vector<Vertex>& added) const;

  std::size_t dimension_;
  std::vector<Vertex> vertices_;
  Vertex upwards_;  ///< the direction in which the region has no end
};

}  // namespace ppsim::verifier
