#pragma once

#include "ppsim/core/memory/sized_tensors.hpp"
#include "ppsim/simulator/metrics/metrics.hpp"

namespace ppsim::simulator {

/// `measure` where the tensors of the Program at the sizes of the run are known already.
[[nodiscard]] RunMetrics measure(const TimedRun& run, const SizedTensors& tensors);

}  // namespace ppsim::simulator
