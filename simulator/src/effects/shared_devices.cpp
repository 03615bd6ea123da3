#include "ppsim/simulator/effects/shared_devices.hpp"

#include <algorithm>

#include "device_loads.hpp"
#include "engine/event_run.hpp"
#include "ppsim/core/ir/check.hpp"

namespace ppsim::simulator {

bool slows_down(const SharedDevices& devices) {
  if (devices.own_transfers > 0 || devices.own_collectives > 0) return true;
  return devices.ranks > 1 + devices.undisturbed &&
         std::ranges::any_of(devices.slowdowns, [](const auto& slowdown) { return slowdown.second > 0; });
}

Expected<SimulatedRun> simulate_on_devices(const AnalyzedProgram& analyzed, const ContendedCosts& costs,
                                           const SharedDevices& devices) {
  PPSIM_CHECK(devices.ranks >= 1 && devices.undisturbed >= 0, "ranks on a device");
  for (const auto& [kind, slowdown] : devices.slowdowns)
    PPSIM_CHECK(slowdown >= 0 && slowdown <= SharedDevices::kMaxSlowdown, "a slowdown in its range");
  for (const std::int64_t own : {devices.own_transfers, devices.own_collectives})
    PPSIM_CHECK(own >= 0 && own <= SharedDevices::kMaxSlowdown, "a slowdown in its range");
  if (!slows_down(devices)) return simulate_beside_transfers(analyzed, costs);
  const Shared shared{.devices = devices};
  if (analyzed.capabilities().residency)
    return run_by_events(analyzed.program(), analyzed.graph(), costs, shared);
  // Who cannot finish with the waits that may occur does not run with those that always do, either.
  if (const auto compiled = compile(analyzed); !compiled) return SimulatedRun(tl::unexpect, compiled.error());
  return run_by_events(analyzed.program(), analyzed.timed_graph(), costs, shared);
}

}  // namespace ppsim::simulator
