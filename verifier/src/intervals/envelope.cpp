#include "envelope.hpp"

#include <boost/integer/common_factor_rt.hpp>

namespace ppsim::verifier {
namespace {

/// How far a vertex or direction is above a function, over its denominator.
Integer height_above(const Envelope::Vertex& vertex, const PathVector& function) {
  return vertex.height - dot(function, vertex.point);
}

void reduce(Envelope::Vertex& vertex) {
  Integer divisor = vertex.height;
  for (const Integer& coordinate : vertex.point) divisor = gcd(divisor, coordinate);
  if (divisor <= 1) return;
  vertex.height /= divisor;
  for (Integer& coordinate : vertex.point) coordinate /= divisor;
}

}  // namespace

Envelope::Envelope(const CostBox& box, const PathVector& first) : dimension_(box.dimension()) {
  const std::size_t sides = 2 * dimension_;
  for (std::uint64_t mask = 0; mask < (std::uint64_t{1} << dimension_); ++mask) {
    std::vector<bool> largest;
    Vertex vertex{{}, 0, Side(sides + 1)};
    for (std::size_t i = 0; i < dimension_; ++i) {
      largest.push_back((mask >> i & 1U) != 0);
      vertex.tight.set(2 * i + (largest.back() ? 1 : 0));
    }
    vertex.tight.set(sides);
    vertex.point = box.corner(largest);
    vertex.height = dot(first, vertex.point);
    vertices_.push_back(std::move(vertex));
  }
  upwards_ = {CostPoint(dimension_ + 1, 0), 1, Side(sides + 1)};
  for (std::size_t i = 0; i < sides; ++i) upwards_.tight.set(i);
}

/// Two vertices (or a vertex and the direction upwards) have an edge between them if nothing else lies on all
/// sides that both lie on.
bool Envelope::are_neighbours(const Side& a, const Side& b) const {
  const Side common = a & b;
  if (common.count() < dimension_) return false;
  int on_all = common.is_subset_of(upwards_.tight) ? 1 : 0;
  for (const Vertex& vertex : vertices_) {
    if (common.is_subset_of(vertex.tight) && ++on_all > 2) return false;
  }
  return true;
}

/// The point of the edge between two neighbours that lies on the function.
void Envelope::add_between(const Vertex& above, const Vertex& below, const PathVector& function,
                           std::vector<Vertex>& added) const {
  if (!are_neighbours(above.tight, below.tight)) return;
  const Integer up = height_above(above, function);
  const Integer down = -height_above(below, function);
  Vertex vertex{CostPoint(dimension_ + 1), up * below.height + down * above.height,
                above.tight & below.tight};
  for (std::size_t i = 0; i <= dimension_; ++i) vertex.point[i] = up * below.point[i] + down * above.point[i];
  reduce(vertex);
  vertex.tight.push_back(true);
  added.push_back(std::move(vertex));
}

void Envelope::add(const PathVector& function) {
  std::vector<const Vertex*> above{&upwards_};
  std::vector<const Vertex*> below;
  std::vector<Vertex> kept;
  for (const Vertex& vertex : vertices_) {
    const Integer height = height_above(vertex, function);
    if (height > 0) above.push_back(&vertex);
    if (height < 0) below.push_back(&vertex);
    if (height < 0) continue;
    kept.push_back(vertex);
    kept.back().tight.push_back(height == 0);
  }
  for (const Vertex* a : above) {
    for (const Vertex* b : below) add_between(*a, *b, function, kept);
  }
  vertices_ = std::move(kept);
  upwards_.tight.push_back(false);
}

}  // namespace ppsim::verifier
