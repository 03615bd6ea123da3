#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

namespace ppsim::repairing {

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

  CheapestSet();
  ~CheapestSet();
  CheapestSet(const CheapestSet&) = delete;
  CheapestSet& operator=(const CheapestSet&) = delete;
  CheapestSet(CheapestSet&&) = delete;
  CheapestSet& operator=(CheapestSet&&) = delete;

  /// Numbers are consecutive from 0. Requires: weight >= 1.
  int add(unsigned weight);
  /// At least one of the choices holds.
  void require(const std::vector<Choice>& choices);
  /// A cheapest set that satisfies everything required so far.
  [[nodiscard]] Answer cheapest(double timeout_s);

 private:
  struct Solver;
  std::unique_ptr<Solver> solver_;
};

}  // namespace ppsim::repairing
