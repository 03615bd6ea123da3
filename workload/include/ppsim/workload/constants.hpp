#pragma once

#include <string>
#include <vector>

namespace ppsim::workload {

/// The numbers that are fitted to measured steps (studies/accuracy); every other one has a source. At most
/// four.
struct FittedConstants {
  FittedConstants();  ///< as they were fitted

  double exposed_share;       ///< of communication that runs beside computation, in time
  double network_efficiency;  ///< of a node's links into the network
  double product_slowdown;    ///< products in a step over the fastest measured alone
  double kernel_time;         ///< seconds a kernel costs beside its work
  friend bool operator==(const FittedConstants&, const FittedConstants&) = default;
};

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
using workload::FittedConstants;
}  // namespace ppsim
