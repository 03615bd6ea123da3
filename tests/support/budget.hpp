#pragma once

#include <string>

namespace ppsim::test {

/// For what a property asks: its budgets count steps, which are the same on every machine, and no seconds.
inline constexpr double kNoTimeLimit_s = 1e6;

/// During its life every question to Z3 is unknown after so many of Z3's own units of work; a million are
/// some seconds. Order: one at a time.
class SolverBudget {
 public:
  explicit SolverBudget(unsigned units);
  ~SolverBudget();
  SolverBudget(const SolverBudget&) = delete;
  SolverBudget& operator=(const SolverBudget&) = delete;
};

/// Ends a case of a property that a budget has left undecided; another one is drawn in its place. The test
/// says at its end how many there were and why the last one was, and fails after `kMaxUndecided`.
inline constexpr int kMaxUndecided = 50;
void leave_undecided(const std::string& why);

}  // namespace ppsim::test
