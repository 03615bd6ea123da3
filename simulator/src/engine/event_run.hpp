#pragma once

#include "ppsim/simulator/effects/shared_devices.hpp"
#include "ppsim/simulator/engine/simulate.hpp"

namespace ppsim::simulator {

class Flows;

/// The state that the ranks of a run share.
struct Shared {
  Flows* flows = nullptr;  ///< of messages and then of matches; null: no links
  SharedDevices devices = {};
};

/// Runs a Program event by event, which is needed where operations in flight matter: under a limit on started
/// and incomplete communication per rank, where that communication slows computation down, where
/// transfers share links, and where ranks share devices. Ties break by rank and position: of the
/// ready communication of a rank, the earliest in its list takes a free place. Requires: `graph` is that of
/// `program`. Errors: bad_argument when the durations together do not fit in 64 bits, or, on shared devices,
/// computation on a shared device takes more than a day.
[[nodiscard]] Expected<SimulatedRun> run_by_events(const Program& program, const ExecutionGraph& graph,
                                                   const ContendedCosts& costs, const Shared& shared = {});

/// The error of durations that do not fit in 64 bits together.
[[nodiscard]] Error durations_do_not_fit();

}  // namespace ppsim::simulator
