#pragma once

#include <set>
#include <string>
#include <vector>

#include "repair/search.hpp"

namespace ppsim::verifier::repairing {

/// The parts of a proposal that keep a cycle together.
class Breakers {
 public:
  struct Context {
    const Proposal& proposal;
    const ExecutionGraph& graph;
    const WaitEvents& events;
    const std::vector<int>& channel;  ///< per message
  };
  Breakers(Search& search, const Context& context);

  /// Every choice that differs from the proposal's and may break an edge of the cycle. The cycle is there as
  /// long as none of them is taken.
  [[nodiscard]] std::vector<Choice> of(const std::vector<Event>& cycle);
  /// The instructions on the cycle, each waiting for the one before it: "rank 0: 0F0, 0SEND_F0, rank 1: ...".
  [[nodiscard]] std::string text(const std::vector<Event>& cycle) const;

 private:
  void wait(InstructionId first, InstructionId second);
  void passes(InstructionId first, InstructionId second);
  void launch(InstructionId first, InstructionId second);
  void message(Event before, Event after);
  void moves(InstructionId original, InstructionId other, bool forward);
  void splits(InstructionId first, InstructionId second);
  void touched(InstructionId id);
  void take(const Candidate& candidate);
  [[nodiscard]] WaitReason reason(InstructionId first, InstructionId second) const;
  [[nodiscard]] bool blocks(InstructionId id) const;
  [[nodiscard]] bool holds_back(InstructionId first, InstructionId second) const;
  [[nodiscard]] PlaceKey place_of(InstructionId original) const;
  [[nodiscard]] const std::vector<InstructionId>& originals(InstructionId id) const;

  Search& search_;
  const Context context_;
  const Program& program_;  ///< the proposal's
  std::set<Choice> choices_;
};

}  // namespace ppsim::verifier::repairing
