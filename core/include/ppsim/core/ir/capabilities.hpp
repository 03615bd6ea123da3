#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <ostream>
#include <utility>

namespace ppsim {

/// The waits of a rank's communication instructions beyond their queues: the one issued before, on
/// whatever queue, must have started, or must be complete.
enum class LaunchOrder : std::uint8_t { none, start, completion };

/// Rule E9: the chain of a rank's launches, in issue order.
struct LaunchChain {
  LaunchOrder order = LaunchOrder::none;
  /// Computation launches collectives of its own (tensor, context or expert parallelism), so it belongs to
  /// the chain, and what follows waits for its completion. No meaning without order.
  bool compute = false;
  /// One hardware queue serves the device: every instruction belongs to the chain. No meaning without order.
  bool everything = false;

  /// Whether each wait of this chain is one of the other's too.
  [[nodiscard]] constexpr bool is_within(const LaunchChain& other) const {
    if (order == LaunchOrder::none) return true;
    return order <= other.order && compute <= other.compute && everything <= other.everything;
  }
  friend bool operator==(const LaunchChain&, const LaunchChain&) = default;
};

/// More credits than a channel has messages: a SEND waits for no RECV.
inline constexpr int kUnlimitedCredits = std::numeric_limits<int>::max();

/// The promises of a transport: simulator and verifier take them as input, a backend states its own.
struct TransportCapabilities {
  /// Empty: rendezvous. n >= 1: a transfer starts while fewer than n earlier messages of its channel are
  /// unreceived.
  std::optional<int> credits = std::nullopt;
  /// A SEND may end before its RECV has started, however many messages are unreceived: its wait for `credits`
  /// may occur and orders nothing.
  bool eager = false;
  /// Communication operations of one rank that may be started and incomplete at once; empty: any number.
  /// None together with ordered launches.
  std::optional<int> residency = std::nullopt;
  /// Every communication operation blocks the host that issues it.
  bool issue_blocks = false;
  /// Launches can be captured in a graph; no meaning for costs or safety.
  bool captures_graphs = false;
  /// Waits that may occur: more of them make a deadlock likelier.
  LaunchChain launches = {};
  /// Those of them that always occur: more of them rule out timings, which bounds on memory rest on.
  LaunchChain guaranteed_launches = {};

  /// Whether launches wait in every run as they may.
  [[nodiscard]] constexpr bool has_certain_launches() const { return launches == guaranteed_launches; }
  /// Whether every wait that may occur always does.
  [[nodiscard]] constexpr bool is_certain() const { return has_certain_launches() && !eager; }
  /// Whether a RECV may end some time after it has started and its data is there, because it still has to be
  /// copied: where guaranteed() has taken the place of eager sends.
  [[nodiscard]] constexpr bool receipts_lag() const { return credits == kUnlimitedCredits; }
  friend bool operator==(const TransportCapabilities&, const TransportCapabilities&) = default;
};

std::ostream& operator<<(std::ostream& out, const TransportCapabilities& capabilities);

/// Rendezvous, no residency limit, nothing blocks, queues are independent. Safety under it carries over to
/// every buffering (Siegel and Avrunin, "Modeling wildcard-free MPI programs for verification", PPoPP 2005).
[[nodiscard]] constexpr TransportCapabilities rendezvous() { return {}; }

/// The same with those waits only that always occur: all timings of the transport are timings of it.
[[nodiscard]] constexpr TransportCapabilities guaranteed(TransportCapabilities capabilities) {
  capabilities.launches = capabilities.guaranteed_launches;
  if (std::exchange(capabilities.eager, false)) capabilities.credits = kUnlimitedCredits;
  return capabilities;
}

/// The waits that simulated times count: launches wait where they always do, and a SEND waits for its RECV
/// also where its transport is eager, since large messages do.
[[nodiscard]] constexpr TransportCapabilities timed(TransportCapabilities capabilities) {
  capabilities.launches = capabilities.guaranteed_launches;
  capabilities.eager = false;
  return capabilities;
}

/// Rendezvous with ordered launches that always occur.
[[nodiscard]] constexpr TransportCapabilities always(const LaunchChain& launches) {
  return {.launches = launches, .guaranteed_launches = launches};
}

/// The assumptions of a proof: that no wait which may occur was left out (deadlock freedom), or also the
/// orders that are kept in every timing (tensor use, memory).
enum class Claim : std::uint8_t { safety, orders };
/// Whether what was proved under `proved` holds under `used`: every wait that may occur was considered, and
/// of orders every one that was relied on is kept. Fewer waits are no less safe: more credits than were
/// considered, and any number after rendezvous. They keep the orders only where none was relied on (`eager`).
[[nodiscard]] bool holds_under(const TransportCapabilities& proved, const TransportCapabilities& used,
                               Claim claim);

}  // namespace ppsim
