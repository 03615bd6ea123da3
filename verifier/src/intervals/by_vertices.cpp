#include <map>

#include "compare_methods.hpp"
#include "envelope.hpp"

namespace ppsim::verifier {
namespace {

enum class Quantity { difference, ratio };

/// Looks for the largest first - second and first / second over a box.
class VertexSearch {
 public:
  VertexSearch(const PricedPair& pair, const Deadline& deadline)
      : pair_(pair),
        deadline_(deadline),
        envelope_(pair.box, longest_at(pair.second, all_largest(pair.box)).vector) {
    measure_new_vertices();
  }

  /// Looks at the vertex with the largest value, and adds the path that the second Program has there, until
  /// that value is the one of the Programs, or the time is up.
  Bracket maximise(Quantity quantity) {
    Bracket bracket{{-1, 0}, {}, {}};  // below everything
    while (true) {
      const std::size_t top = highest(quantity);
      const Envelope::Vertex vertex = envelope_.vertices()[top];
      bracket.most = value(quantity, first_[top], vertex.height, vertex.point[0]);
      if (!bracket.at.empty() && (bracket.settled() || deadline_.over())) return bracket;
      const LongestPath second = longest_at(pair_.second, vertex.point);
      ++evaluated_;
      const Fraction reached = value(quantity, first_[top], second.length, vertex.point[0]);
      if (bracket.at.empty() || bracket.least < reached) {
        bracket.least = reached;
        bracket.at = vertex.point;
      }
      if (second.length == vertex.height) return bracket;
      envelope_.add(second.vector);
      ++paths_;
      measure_new_vertices();
    }
  }

  [[nodiscard]] std::size_t evaluated() const { return evaluated_; }
  [[nodiscard]] std::size_t paths() const { return paths_; }

 private:
  static CostPoint all_largest(const CostBox& box) {
    return box.corner(std::vector<bool>(box.dimension(), true));
  }

  static Fraction value(Quantity quantity, const Integer& first, const Integer& second,
                        const Integer& denominator) {
    switch (quantity) {
      case Quantity::difference:
        return {first - second, denominator};
      case Quantity::ratio:
        if (first == 0 && second == 0) return {0, 1};
        return {first, second};
    }
    return {};
  }

  [[nodiscard]] std::size_t highest(Quantity quantity) const {
    std::size_t best = 0;
    Fraction highest;
    for (std::size_t i = 0; i < first_.size(); ++i) {
      const Envelope::Vertex& vertex = envelope_.vertices()[i];
      Fraction at = value(quantity, first_[i], vertex.height, vertex.point[0]);
      if (i > 0 && !(highest < at)) continue;
      best = i;
      highest = std::move(at);
    }
    return best;
  }

  void measure_new_vertices() {
    std::vector<Integer> measured;
    for (const Envelope::Vertex& vertex : envelope_.vertices()) {
      auto [known, is_new] = known_.try_emplace(vertex.point, 0);
      if (is_new) {
        known->second = length_at(pair_.first, vertex.point);
        ++evaluated_;
      }
      measured.push_back(known->second);
    }
    first_ = std::move(measured);
  }

  const PricedPair& pair_;
  const Deadline& deadline_;
  Envelope envelope_;
  std::map<CostPoint, Integer> known_;  ///< makespans of the first Program
  std::vector<Integer> first_;          ///< of them, per vertex
  std::size_t evaluated_ = 0;
  std::size_t paths_ = 1;
};

}  // namespace

Comparison compare_by_vertices(const PricedPair& pair, const Deadline& deadline) {
  VertexSearch search(pair, deadline);
  Comparison result;
  result.difference = search.maximise(Quantity::difference);
  result.ratio = search.maximise(Quantity::ratio);
  result.evaluated = search.evaluated();
  result.paths = search.paths();
  if (result.difference->least.numerator > 0) {
    result.outcome = Comparison::Outcome::slower;
    result.slower_at = result.difference->at;
  } else if (Fraction{1, 1} < result.ratio->least) {  // found in the time that the difference left over
    result.outcome = Comparison::Outcome::slower;
    result.slower_at = result.ratio->at;
  } else if (result.difference->most.numerator <= 0) {
    result.outcome = Comparison::Outcome::never_slower;
  } else {
    result.reason = kTimeLimit;
  }
  return result;
}

}  // namespace ppsim::verifier
