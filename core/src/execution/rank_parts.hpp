#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <tuple>
#include <vector>

#include "ppsim/core/execution/clock_plan.hpp"
#include "ppsim/core/execution/execution_graph.hpp"

namespace ppsim {

/// The parts of a rank's instructions: computation, ends of messages, memberships of collectives.
/// Each part lies on a track (compute or copy of a rank, one end of a channel, the collectives of a
/// communicator). The numbering of a ClockPlan.
class RankParts {
 public:
  RankParts(const Program& program, const ExecutionGraph& graph, RankId rank);

  [[nodiscard]] std::size_t tracks() const { return numbers_.size(); }
  /// An instruction is complete when all its parts are over.
  /// Requires: an instruction of the rank.
  [[nodiscard]] std::span<const ClockPart> of(InstructionId id) const {
    const std::size_t i = as_size(id.value() - first_.value());
    return {parts_.data() + begin_[i], begin_[i + 1] - begin_[i]};
  }
  /// The part of an instruction that is no communication; without track where it is of another rank.
  [[nodiscard]] ClockPart work(InstructionId id) const {
    return id >= first_ && id < last_ ? of(id).front() : ClockPart{};
  }
  /// The end of a member of a collective. An instruction of another kind or rank has no track.
  [[nodiscard]] ClockPart member(InstructionId id) const {
    return id >= first_ && id < last_ && graph_.match_of[id.index()] >= 0 ? of(id).front() : ClockPart{};
  }
  /// The part that is over when a message is out, when it is received; without track where the rank has no
  /// share in it.
  [[nodiscard]] ClockPart sent(std::size_t message) const { return {sent_[message], count(message)}; }
  [[nodiscard]] ClockPart received(std::size_t message) const { return {received_[message], count(message)}; }

 private:
  enum class TrackKind : std::uint8_t { work, sent, received, member };
  /// Messages of a channel, and matches of a communicator, are numbered in order.
  static std::int32_t count(std::size_t index) { return static_cast<std::int32_t>(index) + 1; }
  int track(TrackKind kind, int number, int queue = 0);
  void add(InstructionId id, RankId rank);
  void add_messages(InstructionId id);

  const Program& program_;
  const ExecutionGraph& graph_;
  std::vector<int> channel_;  ///< per message
  InstructionId first_;
  InstructionId last_;
  std::map<std::tuple<TrackKind, int, int>, int> numbers_;
  std::vector<ClockPart> parts_;
  std::vector<std::size_t> begin_;
  std::vector<int> sent_;
  std::vector<int> received_;
};

}  // namespace ppsim
