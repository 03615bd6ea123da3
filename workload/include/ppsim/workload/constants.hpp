#pragma once

#include <ostream>
#include <string>
#include <vector>

namespace ppsim::workload {

/// A number that simulated times or sizes rest on, besides the description of model and cluster.
struct Constant {
  std::string name;
  double value = 0;
  std::string unit;
  std::string source;   ///< where it is from, or what it was fitted to
  bool fitted = false;  ///< to measured steps

  friend bool operator==(const Constant&, const Constant&) = default;
};

/// Those of analytic_costs.
[[nodiscard]] std::vector<Constant> constants();

}  // namespace ppsim::workload

namespace ppsim {
using workload::Constant;
}  // namespace ppsim
