#pragma once

#include <compare>
#include <string>
#include <vector>

namespace ppsim::verifier::repairing {

/// Change `number` is made, or is not.
struct Choice {
  int number = 0;
  bool made = true;
  friend auto operator<=>(const Choice&, const Choice&) = default;
};

/// Sets of changes that are cheap and satisfy clauses, by Z3.
class CheapestSet {
 public:
  struct Answer {
    enum class Outcome { found, none, unknown };
    Outcome outcome = Outcome::unknown;
    std::vector<int> changes = {};  ///< ascending
    std::string reason = {};        ///< of `unknown`
  };

  /// Numbers are consecutive from 0. Requires: weight >= 1.
  int add(unsigned weight);
  /// At least one of the choices holds. `why` is for the core; empty: it goes without saying.
  void require(std::vector<Choice> choices, std::string why = "");
  /// A cheapest set that satisfies everything required so far.
  [[nodiscard]] Answer cheapest(double timeout_s) const;
  /// Why no set exists: requirements that cannot hold together (an unsat core). Empty
  /// where Z3 does not say.
  [[nodiscard]] std::vector<std::string> core(double timeout_s) const;

 private:
  struct Clause {
    std::vector<Choice> choices;
    std::string why;
  };
  std::vector<unsigned> weights_;  ///< by number
  std::vector<Clause> clauses_;
};

}  // namespace ppsim::verifier::repairing
