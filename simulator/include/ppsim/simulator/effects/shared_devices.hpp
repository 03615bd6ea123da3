#pragma once

#include <cstdint>
#include <map>

#include "ppsim/core/execution/analyzed_program.hpp"
#include "ppsim/simulator/engine/simulate.hpp"

namespace ppsim::simulator {

/// The slowdown of computation on its device: by other ranks, through its memory, caches, power or cores, and
/// by communication of its own rank, on any transport.
///
/// While others of its device compute, an action goes on at 1 / (1 + s * x) of its speed: x is how many
/// others compute at that moment beyond `undisturbed`, s the slowdown of its kind. While a transfer or a
/// collective of its own rank is started and incomplete, it goes on at 1 / (1 + t) of that, t being
/// `own_transfers` or `own_collectives`, and the larger of them beside both. Rates change when one of these
/// begins or ends, and never within a nanosecond.
struct SharedDevices {
  /// The unit of a slowdown: this is an action that takes its time once more for each other rank.
  static constexpr std::int64_t kWhole = 1'000'000;
  static constexpr std::int64_t kMaxSlowdown = 1000 * kWhole;

  int ranks = 1;        ///< of a device: consecutive ones
  int undisturbed = 0;  ///< others that slow nobody down, as where each has its own core
  std::map<OpKind, std::int64_t> slowdowns = {};  ///< of computation, by its kind; kinds left out have none
  std::int64_t own_transfers = 0;                 ///< of computation beside a SEND or RECV of its rank
  std::int64_t own_collectives = 0;               ///< beside a collective of its rank that has other members

  friend bool operator==(const SharedDevices&, const SharedDevices&) = default;
};

/// Whether anything can be slowed down at all. Where not, times are those of simulate_beside_transfers.
[[nodiscard]] bool slows_down(const SharedDevices& devices);

/// A run event by event on devices that ranks share. Without slowdowns its times are those of
/// simulate_beside_transfers, to the nanosecond and the round.
/// Requires: ranks >= 1, undisturbed >= 0, all slowdowns from 0 to kMaxSlowdown.
/// Errors: bad_argument when all durations together do not fit in 64 bits, or computation on a device that
/// slows it down takes more than a day.
[[nodiscard]] Expected<SimulatedRun> simulate_on_devices(const AnalyzedProgram& analyzed,
                                                         const ContendedCosts& costs,
                                                         const SharedDevices& devices);

}  // namespace ppsim::simulator

namespace ppsim {
using simulator::SharedDevices;
using simulator::simulate_on_devices;
using simulator::slows_down;
}  // namespace ppsim
