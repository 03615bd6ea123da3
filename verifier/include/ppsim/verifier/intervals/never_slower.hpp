#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "ppsim/core/ir/capabilities.hpp"
#include "ppsim/core/ir/error.hpp"
#include "ppsim/core/ir/program.hpp"
#include "ppsim/verifier/intervals/cost_space.hpp"
#include "ppsim/verifier/solver/solver_query.hpp"
#include "ppsim/verifier/verify.hpp"

namespace ppsim::verifier {

/// How to look at all costs of a space.
enum class CompareMethod : std::uint8_t {
  automatic,  ///< vertices up to kMaxVertexVariables variables, else paths
  vertices,   ///< exact, with the extremes; as long as 2^variables is not much
  paths,      ///< Z3 over the path vectors that no other one dominates; no extremes
};
inline constexpr std::size_t kMaxVertexVariables = 8;

/// Whether the first of two Programs never takes longer than the second, whatever the costs that both have.
struct NeverSlowerQuestion {
  const Program& first;
  const Program& second;
  const CostSpace& costs;
  TransportCapabilities capabilities;
  SolverOptions limits = {};
  CompareMethod method = CompareMethod::automatic;
};

/// Costs, and the makespans of both Programs under them.
struct ComparedAt {
  std::vector<Nanoseconds> values;  ///< of the variables of the space, rounded to nanoseconds
  Nanoseconds first = 0;            ///< makespans for the rounded values
  Nanoseconds second = 0;
  /// "F = 4/3 ns, ...; 22/3 against 7 ns" where rounding takes away what is to be shown.
  std::string exact;
  friend bool operator==(const ComparedAt&, const ComparedAt&) = default;
};

/// The largest value of a quantity over all costs: between `least`, which `at` reaches, and `most`.
struct Extreme {
  double least = 0;
  double most = 0;
  ComparedAt at;
  friend bool operator==(const Extreme&, const Extreme&) = default;
};

/// The first Program is slower here.
struct Slower {
  ComparedAt at;
  friend bool operator==(const Slower&, const Slower&) = default;
};

struct NeverSlowerAnswer {
  std::variant<Proved, Slower, Unknown> verdict;
  std::string method;                 ///< vertices or paths
  std::optional<Extreme> ratio;       ///< of the first makespan to the second
  std::optional<Extreme> difference;  ///< first - second, in nanoseconds
  std::size_t evaluated = 0;          ///< costs for which longest paths were found
  std::size_t paths = 0;              ///< path vectors of the second Program that the answer rests on
  double seconds = 0;
};

/// Decides whether first <= second for every point of the cost space. Both makespans are maxima of linear
/// functions, one for each path. With the functions of the second known so far, first - second is at most
/// something that is convex between the vertices of their maximum, thus largest at one of these; where it is
/// above 0 there, either the first is slower, or the second has another path, which is added. All arithmetic
/// is in whole numbers.
/// Errors: bad_argument when a Program cannot finish or does not match, under a residency limit, or when
/// costs add up to more than 64 bits of nanoseconds.
[[nodiscard]] Expected<NeverSlowerAnswer> never_slower(const NeverSlowerQuestion& question);

/// "F = 2000000 ns, c = 0 ns: 44000000 against 43000000 ns".
[[nodiscard]] std::string to_string(const CostSpace& costs, const ComparedAt& at);

}  // namespace ppsim::verifier

namespace ppsim {
using verifier::ComparedAt;
using verifier::CompareMethod;
using verifier::Extreme;
using verifier::kMaxVertexVariables;
using verifier::never_slower;
using verifier::NeverSlowerAnswer;
using verifier::NeverSlowerQuestion;
using verifier::Slower;
using verifier::to_string;
}  // namespace ppsim
