#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "ppsim/core/execution/execution_graph.hpp"
#include "ppsim/core/ir/program.hpp"
#include "ppsim/verifier/repair/repair.hpp"
#include "repair/channels.hpp"

namespace ppsim::verifier::repairing {

/// A change that a repair may hold, about instructions of the original Program.
struct Candidate {
  ChangeKind kind = ChangeKind::move;
  InstructionId what;    ///< move: the instruction that moves; group: the first of the two
  InstructionId anchor;  ///< move: its neighbour afterwards; group: the second
  bool before = false;   ///< move: directly before the anchor; group: where the first stands
  int channel = -1;      ///< split, credit
  int level = 0;         ///< credit: this many messages
  int passed = 0;        ///< move: instructions that count and that it passes
  friend auto operator<=>(const Candidate&, const Candidate&) = default;
};

/// Where an instruction stands in the list of its rank: at its original place, or beside another one's.
using PlaceKey = std::pair<std::pair<std::int32_t, int>, std::int32_t>;
[[nodiscard]] inline PlaceKey own_place(InstructionId id) { return {{id.value(), 0}, id.value()}; }
[[nodiscard]] inline PlaceKey place_after(const Candidate& move) {
  return {{move.anchor.value(), move.before ? -1 : 1}, move.what.value()};
}

/// The changes to choose from for the instructions of a Program.
class Candidates {
 public:
  explicit Candidates(const Program& program, const ExecutionGraph& graph);

  [[nodiscard]] const std::vector<ChannelKey>& channels() const { return channels_; }
  /// The channels of an instruction's transfers.
  [[nodiscard]] std::vector<int> channels_of(InstructionId id) const;
  [[nodiscard]] int channel_of(InstructionId id, std::size_t member) const;
  /// Of an action that one of the instructions holds.
  [[nodiscard]] int channel_of(std::span<const InstructionId> ids, const Action& action) const;

  /// Every place that makes a difference to waits, within what a communication depends on, what depends on
  /// it, and its neighbours on its channels. Empty for other instructions.
  [[nodiscard]] const std::vector<Candidate>& moves_of(InstructionId id);
  /// The group of two single transfers, where neither depends on the other and one can stand with the other.
  /// Requires: first stands before second.
  [[nodiscard]] std::vector<Candidate> group_of(InstructionId first, InstructionId second);

 private:
  /// Positions in the list between which a communication may stand, both exclusive.
  struct Range {
    std::int32_t low;
    std::int32_t high;
  };
  [[nodiscard]] bool transfers(InstructionId id) const;
  [[nodiscard]] bool moves(InstructionId id) const;
  [[nodiscard]] Range range_of(InstructionId id);
  [[nodiscard]] bool matters(InstructionId first, InstructionId second) const;
  [[nodiscard]] bool blocks(InstructionId id) const;
  [[nodiscard]] bool meet_in_order(InstructionId a, InstructionId b) const;
  [[nodiscard]] std::vector<Candidate> find_moves(InstructionId id);
  void find_dependencies(RankId rank);

  const Program& program_;
  const ExecutionGraph& graph_;
  std::vector<ChannelKey> channels_;
  std::map<ChannelKey, int> number_;
  std::map<InstructionId, std::vector<Candidate>> moves_;
  std::vector<char> known_;    ///< per rank: whether dependencies are found
  std::vector<Range> depend_;  ///< per instruction, by data and `after` of others
};

}  // namespace ppsim::verifier::repairing
