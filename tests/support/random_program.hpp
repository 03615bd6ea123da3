#pragma once

#include <cstdint>

#include "ppsim/core/ir/capabilities.hpp"
#include "ppsim/core/ir/program.hpp"
#include "ppsim/core/ir/schedule.hpp"
#include "ppsim/core/ir/tables.hpp"

namespace ppsim::test {

/// A Program lowered from the schedule with random options, one in four with further groups, whose receives
/// are posted ahead; then damaged `mutations` times: instructions swapped, dropped, doubled, sent elsewhere,
/// grouped, blocked or ordered. Same arguments, same Program, on any machine.
[[nodiscard]] Program random_program(const Schedule& schedule, int mutations, std::uint64_t seed);

/// One with many channels on which credits run out: half of its receives wait for the computation before
/// them, and the host waits for a third of its sends.
[[nodiscard]] Program late_program(const Schedule& schedule, std::uint64_t seed);

/// Small durations, a third of them 0, for every kind and some stages.
[[nodiscard]] CostTable random_costs(int stages, std::uint64_t seed);

/// Rendezvous or a few credits; `with_residency` adds a limit of 1 to 4 operations.
[[nodiscard]] TransportCapabilities random_capabilities(bool with_residency, std::uint64_t seed);

}  // namespace ppsim::test
