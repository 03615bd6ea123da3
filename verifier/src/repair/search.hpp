#pragma once

#include <map>
#include <span>
#include <variant>
#include <vector>

#include "properties/properties.hpp"
#include "repair/candidates.hpp"
#include "repair/cheapest_set.hpp"
#include "repair/edit.hpp"
#include "repair/wait_events.hpp"

namespace ppsim::verifier::repairing {

/// The Program with a set of changes, and which change touches which instruction.
struct Proposal {
  std::vector<Candidate> changes;
  Edited edited;
  std::map<InstructionId, int> touched;  ///< by a move or a group: its number
  std::vector<int> credits;              ///< per channel
  std::vector<char> is_split;            ///< per channel
};

/// Looks for cheapest sets of changes after which no cycle of waits is left. Each cycle of a proposal becomes
/// a clause: one of the changes that break one of its edges is made, or one of those that brought an edge
/// about is not.
class Search {
 public:
  struct Input {
    const Program& program;
    const TransportCapabilities& capabilities;
    std::span<const ChangeKind> kinds;
    const Deadline& deadline;
  };
  explicit Search(const Input& input);

  /// Requires: every message and match of the Program is complete and matched.
  [[nodiscard]] std::variant<Proposal, NoRepair, Unknown> next();
  /// Never again all of these changes together.
  void exclude(const Proposal& proposal);
  [[nodiscard]] Change describe(const Candidate& candidate) const;

 private:
  [[nodiscard]] bool allowed(ChangeKind kind) const;
  int number_of(const Candidate& candidate);
  void keep_apart(const Candidate& candidate, int number);
  [[nodiscard]] std::variant<Proposal, NoRepair, Unknown> propose();
  [[nodiscard]] NoRepair no_set();
  [[nodiscard]] Proposal proposal_of(const std::vector<int>& numbers, Edited edited) const;
  /// Requires what the cycles of the proposal ask for. Returns: whether there are any, or one that stays.
  [[nodiscard]] std::variant<bool, NoRepair> learn(const Proposal& proposal);
  [[nodiscard]] bool learn_mismatches(const Proposal& proposal, const ExecutionGraph& graph);

  const Input input_;
  TransportCapabilities capabilities_;  ///< credits are part of the changes
  AnalyzedProgram analyzed_;
  Candidates candidates_;
  CheapestSet set_;
  std::map<Candidate, int> numbers_;
  std::vector<Candidate> made_;                         ///< by number
  std::map<InstructionId, std::vector<int>> touching_;  ///< moves and groups, by instruction

  friend class Breakers;
};

}  // namespace ppsim::verifier::repairing
