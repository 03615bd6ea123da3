#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "ppsim/core/execution/analyzed_program.hpp"
#include "ppsim/simulator/effects/shared_devices.hpp"
#include "ppsim/simulator/engine/simulate.hpp"

namespace ppsim::simulator {

/// Rates and capacities: this many parts are a transfer at the speed that it has alone. Shares of up to 20
/// flows are whole.
using Rate = std::int64_t;
inline constexpr Rate kFullSpeed = 16 * 232792560LL;

/// Something that transfers share, such as one direction of a NIC.
struct Link {
  std::string name;
  Rate capacity = kFullSpeed;
  friend bool operator==(const Link&, const Link&) = default;
};

/// A link that a flow takes, by so many streams at once that are each as fast as the flow.
struct LinkTake {
  std::uint32_t link = 0;
  std::uint32_t streams = 1;
  friend bool operator==(const LinkTake&, const LinkTake&) = default;
};

/// The links of a network, and which of them each transfer takes.
struct SharedLinks {
  std::vector<Link> links;
  /// Of every message, then of every match of the timed graph: each link at most once.
  std::vector<std::vector<LinkTake>> taken;
  friend bool operator==(const SharedLinks&, const SharedLinks&) = default;
};

/// Max-min fair rates: as large as they can be together, the smallest first. Nobody exceeds full speed.
/// Source: progressive filling (Bertsekas and Gallager, Data Networks, section 6.5.2). A share that is not
/// whole is rounded down.
[[nodiscard]] std::vector<Rate> fair_rates(std::span<const std::vector<LinkTake>> flows,
                                           std::span<const Link> links);

/// Where the ranks of a Program are, and what connects them.
struct NodeNetwork {
  int ranks = 8;            ///< of a node
  bool cyclic = false;      ///< rank r is on node r mod nodes; else consecutive ranks share a node
  int nics = 1;             ///< of a node; its i-th rank uses the i-th of them, in turn: rails
  Rate speed = kFullSpeed;  ///< of a NIC, each way
  Rate core = 0;            ///< of all that passes between nodes; 0: no limit
  friend bool operator==(const NodeNetwork&, const NodeNetwork&) = default;
};

/// Messages between nodes take the NIC of each end and the core; a collective whose members are on several
/// nodes takes, at once, one NIC of each of them both ways, and the core for as many streams. Within a node
/// nothing is shared.
/// Requires: ranks, nics >= 1, speed >= 1, core >= 0.
[[nodiscard]] SharedLinks shared_links(const AnalyzedProgram& analyzed, const NodeNetwork& network);

/// The use of one link in a run.
struct LinkUse {
  std::int64_t flows = 0;     ///< each stream of a collective is one
  Nanoseconds busy = 0;       ///< some flow is on it
  Nanoseconds contended = 0;  ///< it holds some flow below full speed
  friend bool operator==(const LinkUse&, const LinkUse&) = default;
};

/// A run, and what it made of every link.
struct SharedRun {
  SimulatedRun run;
  std::vector<LinkUse> uses;  ///< empty where the run is stuck
};

/// A run event by event in which transfers and collectives that share links slow each other down: each goes
/// on at its fair rate until one begins or ends. Where nothing is shared, times are those of
/// simulate_beside_transfers. A duration is taken for what moves at full speed, latency included. Ranks of
/// one of `devices` slow each other down, too. Requires and errors: those of simulate_on_devices.
[[nodiscard]] Expected<SharedRun> simulate_shared(const AnalyzedProgram& analyzed,
                                                  const ContendedCosts& costs, const SharedLinks& links,
                                                  const SharedDevices& devices = {});

}  // namespace ppsim::simulator

namespace ppsim {
using simulator::Link;
using simulator::LinkTake;
using simulator::LinkUse;
using simulator::NodeNetwork;
using simulator::shared_links;
using simulator::SharedLinks;
using simulator::SharedRun;
using simulator::simulate_shared;
}  // namespace ppsim
