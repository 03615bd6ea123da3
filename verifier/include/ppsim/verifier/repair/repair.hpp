#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "ppsim/core/ir/capabilities.hpp"
#include "ppsim/core/ir/program.hpp"
#include "ppsim/verifier/deadlock/deadlock.hpp"
#include "ppsim/verifier/verify.hpp"

namespace ppsim::verifier {

enum class ChangeKind : std::uint8_t {
  move,    ///< another place in the list of its rank
  group,   ///< two transfers of a rank, next to each other on their queue, become one group
  split,   ///< the messages from one rank to another get a communicator and a queue of their own
  credit,  ///< the transport buffers messages of a channel; the Program stays as it is
};

/// One change to a Program, or to what its transport promises.
struct Change {
  ChangeKind kind = ChangeKind::move;
  Place what;           ///< move: what is moved; group: the first of the two
  Place other;          ///< move: what it then stands beside; group: the second
  bool before = false;  ///< move: directly before `other`, else directly behind it
  std::string communicator;
  RankId source;  ///< split, credit: the messages from this rank
  RankId destination;
  int credits = 0;  ///< credit: messages of the channel that may be out and not received
  friend bool operator==(const Change&, const Change&) = default;
};
/// "move rank 1: 2RECV_B0 before 2SEND_F3".
[[nodiscard]] std::string to_string(const Change& change);

/// A Program that does not hang, and what was changed to get there.
struct Repaired {
  std::vector<Change> changes;  ///< none where the Program does not hang in the first place
  Program program;
  VerifyReport report;  ///< of `program`

  /// The properties that `report` refutes: a Program that lacks actions, or lists one before what it needs,
  /// stays so.
  [[nodiscard]] std::vector<Property> still_refuted() const;
};

/// That the changes asked for cannot help, in lines: what is absent, or a cycle that none of them breaks.
struct NoRepair {
  std::vector<std::string> why;
  friend bool operator==(const NoRepair&, const NoRepair&) = default;
};

using RepairAnswer = std::variant<Repaired, NoRepair, Unknown>;

/// The changes that are allowed, and the properties of the result.
struct RepairOptions {
  VerifyOptions verify;  ///< its timeout holds for everything; a residency limit makes the answer unknown
  std::vector<ChangeKind> kinds = {ChangeKind::move, ChangeKind::group, ChangeKind::split};
};

/// The fewest changes after which a Program does not hang, after those that undo a mismatch: where the
/// messages of a channel are received in another order than they are sent in, receives move forward until
/// they are not. Z3 proposes a set of changes that breaks every cycle of waits known so far, the execution
/// graph of the changed Program finds the next ones. What comes out is verified from scratch: every property
/// that was proved before is still proved. Of sets as small the one is taken that moves rather than groups,
/// and groups rather than splits. A move takes one communication past others that it shares no channel with,
/// not past what it depends on or what depends on it; what follows it then is dropped from its `after` list.
/// Requires: kinds do not hold `credit`, see fewest_credits.
[[nodiscard]] RepairAnswer repair(const Program& program, const RepairOptions& options = {});

/// The least that a transport has to buffer so that a Program does not hang.
struct FewestCredits {
  int everywhere = 0;            ///< the smallest n for which Credits(n) will do; 0: rendezvous will
  std::vector<Change> channels;  ///< the fewest credits in all, when other channels have none
  friend bool operator==(const FewestCredits&, const FewestCredits&) = default;
};
using CreditsAnswer = std::variant<FewestCredits, NoRepair, Unknown>;

/// Errors (as NoRepair): what no buffering helps. `issue_blocks` counts, credits and residency do not.
/// Units: timeout_s seconds.
[[nodiscard]] CreditsAnswer fewest_credits(const Program& program, const TransportCapabilities& capabilities,
                                           double timeout_s = 60);

/// Why a Program in which something is absent or named differently at both ends cannot be repaired by
/// changing orders: per channel what is missing or too many. Empty where every message has two ends alike.
[[nodiscard]] std::vector<std::string> absences(const Program& program);

}  // namespace ppsim::verifier

namespace ppsim {
using verifier::absences;
using verifier::Change;
using verifier::ChangeKind;
using verifier::CreditsAnswer;
using verifier::fewest_credits;
using verifier::FewestCredits;
using verifier::NoRepair;
using verifier::repair;
using verifier::RepairAnswer;
using verifier::Repaired;
using verifier::RepairOptions;
using verifier::to_string;
}  // namespace ppsim
