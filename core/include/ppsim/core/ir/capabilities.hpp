#pragma once

#include <optional>
#include <ostream>

namespace ppsim {

/// What a transport promises; simulator and verifier take it as input, a backend states its own.
struct TransportCapabilities {
  /// Empty: rendezvous. n >= 1: a transfer starts while fewer than n earlier messages of its channel are
  /// unreceived.
  std::optional<int> credits = std::nullopt;
  /// Communication operations of one rank that may be started and incomplete at once; empty: any number.
  std::optional<int> residency = std::nullopt;
  /// Every communication operation blocks the host that issues it.
  bool issue_blocks = false;
  /// Launches can be captured in a graph; no meaning for costs or safety.
  bool captures_graphs = false;

  friend bool operator==(const TransportCapabilities&, const TransportCapabilities&) = default;
};

std::ostream& operator<<(std::ostream& out, const TransportCapabilities& capabilities);

/// Rendezvous, no residency limit, nothing blocks: the weakest promise, under which safety carries over to
/// every buffering (Siegel and Avrunin, "Modeling wildcard-free MPI programs for verification", PPoPP 2005).
[[nodiscard]] constexpr TransportCapabilities rendezvous() { return {}; }

}  // namespace ppsim
