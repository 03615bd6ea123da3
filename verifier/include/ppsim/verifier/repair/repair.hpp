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
  split,   ///< the messages from one rank to another get their own communicator and queue
  credit,  ///< the transport buffers messages of a channel; the Program stays as it is
};

/// One change to a Program, or to what its transport promises.
struct Change {
  ChangeKind kind = ChangeKind::move;
  NamedInstruction what;   ///< move: the instruction that moves; group: the first of the two
  NamedInstruction other;  ///< move: the instruction next to which it goes; group: the second
  bool before = false;     ///< move: directly before `other`, else directly after it
  std::string communicator;
  RankId source;  ///< split, credit: the messages from this rank
  RankId destination;
  int credits = 0;  ///< credit: messages of the channel that may be out and not received
  friend bool operator==(const Change&, const Change&) = default;
};
/// "move rank 1: 2RECV_B0 before 2SEND_F3".
[[nodiscard]] std::string to_string(const Change& change);

/// A Program that does not hang, and the changes that led to it.
struct Repaired {
  std::vector<Change> changes;  ///< none where the Program does not hang in the first place
  Program program;
  VerifyReport report;  ///< of `program`

  /// The properties that `report` refutes: a Program that lacks actions, or lists one before what it needs,
  /// stays so.
  [[nodiscard]] std::vector<Property> still_refuted() const;
};

/// The reason why none of the changes asked for helps, in lines: missing actions, or a cycle that none of
/// them breaks.
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
/// graph of the changed Program finds the next ones. The result is verified from scratch: every property that
/// was proved before is still proved. Among sets of the same size, moves are preferred to groups, and groups
/// to splits. A move takes one communication past others that share no channel with it, but not past an
/// instruction that it depends on or that depends on it; instructions that then follow it leave its `after`
/// list. Requires: kinds do not hold `credit`, see fewest_credits.
[[nodiscard]] RepairAnswer repair(const Program& program, const RepairOptions& options = {});

/// The fewest messages that a transport has to buffer so that a Program does not hang.
struct FewestCredits {
  int everywhere = 0;            ///< the smallest n for which Credits(n) suffices; 0: rendezvous does
  std::vector<Change> channels;  ///< the fewest credits in all, when other channels have none
  friend bool operator==(const FewestCredits&, const FewestCredits&) = default;
};
using CreditsAnswer = std::variant<FewestCredits, NoRepair, Unknown>;

/// Errors (as NoRepair): a hang that no buffering removes. Uses `issue_blocks`, ignores credits and
/// residency. Units: timeout_s seconds.
[[nodiscard]] CreditsAnswer fewest_credits(const Program& program, const TransportCapabilities& capabilities,
                                           double timeout_s = 60);

/// The reasons why another order cannot repair a Program, in lines: ends of messages and members of
/// collectives that are missing, too many or different, and waits that nothing satisfies.
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
