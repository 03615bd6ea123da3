#pragma once

#include "ppsim/simulator/effects/shared_devices.hpp"
#include "ppsim/simulator/engine/simulate.hpp"

namespace ppsim::simulator {

/// Whether a run event by event can count all its times.
/// Errors: bad_argument when the durations together do not fit in 64 bits, or, on shared devices, computation
/// on a shared device takes more than a day.
[[nodiscard]] Expected<void> check_durations(const Program& program, const ContendedCosts& costs,
                                             const SharedDevices& devices);

}  // namespace ppsim::simulator
