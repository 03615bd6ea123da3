#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "ppsim/core/ir/tables.hpp"
#include "ppsim/core/ir/units.hpp"
#include "ppsim/verifier/verify.hpp"

namespace ppsim::verifier {

/// A duration that is not known better than this.
struct CostVariable {
  std::string name;
  Nanoseconds least = 0;
  Nanoseconds most = 0;
  friend bool operator==(const CostVariable&, const CostVariable&) = default;
};

/// constant + the sum of coefficient * variable.
struct LinearCost {
  Nanoseconds constant = 0;
  std::map<int, std::int64_t> coefficients;  ///< by number of the variable; all above 0
  friend bool operator==(const LinearCost&, const LinearCost&) = default;
};
[[nodiscard]] LinearCost operator+(LinearCost a, const LinearCost& b);
/// Requires: factor >= 0.
[[nodiscard]] LinearCost operator*(std::int64_t factor, LinearCost cost);

/// Every cost table in which some durations are within their bounds and all others follow from them: one
/// variable for F on all stages or one for each stage, B = I + W.
class CostSpace {
 public:
  /// Adds a variable and returns it as a cost; a constant where its bounds are equal.
  /// Requires: 0 <= least <= most.
  LinearCost add(CostVariable variable);
  /// As CostTable::set, and looked up alike.
  void set(const CostClass& key, LinearCost cost);
  [[nodiscard]] const LinearCost& operator()(const CostClass& key) const;

  [[nodiscard]] const std::vector<CostVariable>& variables() const { return variables_; }
  /// The table for a value of each variable. Errors: throws Overflow when a cost is beyond 64 bits.
  [[nodiscard]] CostTable at(const std::vector<Nanoseconds>& values) const;
  /// The tables of all least and of all largest values.
  [[nodiscard]] CostBounds bounds() const;
  /// The table half way between its bounds.
  [[nodiscard]] CostTable middle() const;

 private:
  std::vector<CostVariable> variables_;
  CostTable numbers_;                               ///< which of costs_ a class has
  std::vector<LinearCost> costs_ = {LinearCost{}};  ///< 0: that of what no key names
};

}  // namespace ppsim::verifier

namespace ppsim {
using verifier::CostSpace;
using verifier::CostVariable;
using verifier::LinearCost;
}  // namespace ppsim
