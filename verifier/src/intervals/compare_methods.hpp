#pragma once

#include <optional>
#include <string>
#include <vector>

#include "../limits.hpp"
#include "ppsim/verifier/solver/solver_query.hpp"
#include "priced_paths.hpp"

namespace ppsim::verifier {

/// numerator / denominator; denominator 0: without bound.
struct Fraction {
  Integer numerator = 0;
  Integer denominator = 1;

  friend bool operator<(const Fraction& a, const Fraction& b) {
    return a.numerator * b.denominator < b.numerator * a.denominator;
  }
};

/// A largest value that is known to lie between two numbers, and the costs that reach the first.
struct Bracket {
  Fraction least;
  Fraction most;
  CostPoint at;

  [[nodiscard]] bool settled() const { return !(least < most); }
};

/// The result of a method within its time.
struct Comparison {
  enum class Outcome { never_slower, slower, unknown };

  Outcome outcome = Outcome::unknown;
  CostPoint slower_at;  ///< outcome `slower`
  std::string reason;   ///< outcome `unknown`
  std::optional<Bracket> ratio;
  std::optional<Bracket> difference;
  std::size_t evaluated = 0;
  std::size_t paths = 0;
};

[[nodiscard]] Comparison compare_by_vertices(const PricedPair& pair, const Deadline& deadline);
/// `subject` names the two Programs in the files of queries.
[[nodiscard]] Comparison compare_by_paths(const PricedPair& pair, const SolverOptions& limits,
                                          const std::string& subject);

/// The vectors of all paths that are the longest for some costs of the box, and perhaps some more; nothing
/// where a point has more than `limit` or the time is up.
[[nodiscard]] std::optional<std::vector<PathVector>> path_vectors(const PricedPaths& paths,
                                                                  const CostBox& box, std::size_t limit,
                                                                  const Deadline& deadline);

}  // namespace ppsim::verifier
