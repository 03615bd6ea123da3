#include "ppsim/workload/constants.hpp"

namespace ppsim::workload {

std::vector<Constant> constants() {
  const std::string assumed = "an assumption, from no measurement";
  const std::string adam =
      "mixed-precision Adam: float32 weights and two moments (arXiv 1910.02054, section 3.1)";
  return {
      {"attention_efficiency", 0.6, "of the rate of large products", assumed},
      {"memory_efficiency", 0.8, "of the rate as sold", assumed},
      {"link_efficiency", 0.8, "of the rate as sold", assumed},
      {"nvlink_latency", 3e-6, "s", assumed},
      {"network_latency", 10e-6, "s", assumed + ", where the cluster does not say"},
      {"optimizer_state", 12, "bytes a parameter", adam},
  };
}

}  // namespace ppsim::workload
