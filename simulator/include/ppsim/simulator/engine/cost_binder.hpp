#pragma once

#include <vector>

#include "ppsim/simulator/engine/simulate.hpp"

namespace ppsim::simulator {

/// Binds the tables of many points to one Program. Where a table has the keys of the one before it, which
/// entry counts for which cost class is known, and nothing is looked up again.
class CostBinder {
 public:
  /// Requires: `program` outlives the binder.
  explicit CostBinder(const CompiledProgram& program) : program_(program) {}

  /// As bind_costs.
  /// Errors: those of bind_costs.
  [[nodiscard]] Expected<BoundCosts> operator()(const CostTable& costs);

 private:
  [[nodiscard]] bool has_known_keys(const CostTable& costs) const;
  void look_up(const CostTable& costs);

  const CompiledProgram& program_;
  std::vector<CostClass> keys_;
  std::vector<std::size_t> entry_of_;  ///< per cost class, into the entries from 1 on; 0: none
};

}  // namespace ppsim::simulator

namespace ppsim {
using simulator::CostBinder;
}  // namespace ppsim
