#pragma once

#include "analytic_work.hpp"
#include "layer_times.hpp"

namespace ppsim::workload {

/// Bytes that recompute within the backward makes again, for I and for W.
struct Remade {
  double for_input = 0;
  double for_weight = 0;
};

/// Takes from `work` of a stage's layers what recompute does not keep, and adds to `times` what making it
/// again takes.
[[nodiscard]] Remade save_less(const SoftwareStack& stack, PassTimes& times, LayerWork& work);

}  // namespace ppsim::workload
