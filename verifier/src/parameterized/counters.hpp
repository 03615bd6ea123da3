#pragma once

#include <z3++.h>

#include "ppsim/verifier/parameterized/periodic.hpp"

namespace ppsim::verifier {

/// The states of a periodic program for every number of periods at once, as integers: k, and per event how
/// many of its instances are complete. An assignment that satisfies states() is a set of completions that
/// holds with each one all that must precede it, of the Program for k periods; and each such set is one.
class Counters {
 public:
  Counters(z3::context& context, const PeriodicProgram& family);

  [[nodiscard]] const z3::expr& k() const { return k_; }
  [[nodiscard]] const z3::expr& complete(int event) const { return complete_[as_size(event)]; }
  [[nodiscard]] const z3::expr_vector& states() const { return states_; }
  [[nodiscard]] z3::expr value(const AffineCount& number) const;
  [[nodiscard]] z3::expr count(int series) const;
  /// Whether instance `instances - 1` of a series may start, and so all before it.
  [[nodiscard]] z3::expr may_start(int series, const z3::expr& instances) const;
  /// Memory of a rank: the most that can be live between these completions and the next one.
  /// Order: adds to `definitions` what the result rests on.
  [[nodiscard]] z3::expr memory(RankId rank, const SizeTable& sizes, z3::expr_vector& definitions) const;
  /// Nothing can move although something is incomplete, with at most `residency` communication operations of
  /// a rank started and incomplete.
  [[nodiscard]] z3::expr_vector stuck(int residency) const;

 private:
  [[nodiscard]] z3::expr wait(const SeriesWait& wait, const z3::expr& instances) const;
  [[nodiscard]] z3::expr ready(int series) const;

  z3::context& context_;
  const PeriodicProgram& family_;
  z3::expr k_;
  std::vector<z3::expr> complete_;
  z3::expr_vector states_;
  std::vector<std::vector<const SeriesWait*>> waits_of_;  ///< per series
};

}  // namespace ppsim::verifier
