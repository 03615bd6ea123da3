#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <vector>

#include "ppsim/core/execution/execution_graph.hpp"

namespace ppsim {

/// Something that is over for certain when its track has come to `count`. What lies on a track is over one
/// after another, so how far it has come is one number.
struct ClockPart {
  std::int32_t track = -1;  ///< -1: nothing that is counted
  std::int32_t count = 0;
};

/// Per track, how far it has come for certain. A set of parts that holds with each one all that must precede
/// it.
using ClockView = std::span<const std::int32_t>;

/// Adds all of `from` to `into`.
inline void merge_clock(std::span<std::int32_t> into, ClockView from) {
  for (std::size_t track = 0; track < into.size(); ++track) into[track] = std::max(into[track], from[track]);
}

/// Clocks of instructions, messages or meetings. They lie in the order in which they are made, so that those
/// that are in use lie together.
class ClockTable {
 public:
  ClockTable(std::size_t rows, std::size_t tracks)
      : tracks_(tracks),
        place_(rows, kNowhere),
        counts_(std::make_unique_for_overwrite<std::int32_t[]>(rows * tracks)) {}

  [[nodiscard]] static std::size_t bytes_of_row(std::size_t tracks) {
    return tracks * sizeof(std::int32_t) + sizeof(std::uint32_t);
  }

  [[nodiscard]] bool has(std::size_t row) const { return place_[row] != kNowhere; }
  /// Requires: has(row).
  [[nodiscard]] std::span<std::int32_t> operator[](std::size_t row) {
    return {counts_.get() + place_[row] * tracks_, tracks_};
  }
  /// A row of zeros.
  std::span<std::int32_t> make(std::size_t row) {
    place_[row] = made_++;
    const std::span<std::int32_t> clock = (*this)[row];
    std::fill(clock.begin(), clock.end(), 0);
    return clock;
  }

 private:
  static constexpr std::uint32_t kNowhere = std::numeric_limits<std::uint32_t>::max();
  std::size_t tracks_;
  std::uint32_t made_ = 0;
  std::vector<std::uint32_t> place_;
  std::unique_ptr<std::int32_t[]> counts_;  ///< no vector: rows are filled when they are made
};

/// Carries clocks through a run order of the whole Program. Which tracks they count is up to the numbering:
///
///   std::size_t tracks() const
///   ClockPart work(InstructionId) const     the end of an instruction that is no communication
///   ClockPart sent(std::size_t) const       of a message: it is out
///   ClockPart received(std::size_t) const   of a message
///   ClockPart met(std::size_t) const        the end of a collective
///
/// The clock of an instruction is that of its start until it completes, and that of its completion from then
/// on. What its partners need of the start is taken into the clock of the message or the meeting, at the
/// latest when the first of the ends completes. Messages and meetings have clocks of their own because their
/// ends are over together: who knows that a RECV is complete knows that its SEND's message is out.
template <class Numbering>
class ClockPass {
 public:
  /// Requires: graph and numbering outlive it.
  ClockPass(const ExecutionGraph& graph, const Numbering& numbering)
      : graph_(graph),
        numbering_(numbering),
        instruction_(graph.size(), numbering.tracks()),
        sent_(graph.messages.size(), numbering.tracks()),
        received_(graph.capabilities.credits ? graph.messages.size() : 0, numbering.tracks()),
        met_(graph.meetings.size(), numbering.tracks()) {}

  ClockView start(InstructionId id) {
    const Clock clock = instruction_.make(id.index());
    for (const InstructionId predecessor : graph_.predecessors_of(id)) merge(clock, predecessor);
    return clock;
  }

  ClockView complete(InstructionId id) {
    const Clock clock = instruction_[id.index()];
    const auto messages = graph_.messages_of(id);
    const std::int32_t meeting = graph_.meeting_of[id.index()];
    if (messages.size() > 1) {
      for (const std::uint32_t m : messages) end(m, id);  // all from the start's clock, before it changes
    }
    for (const std::uint32_t m : messages) merge_clock(clock, end(m, id));
    if (meeting >= 0) {
      merge_clock(clock, met(static_cast<std::size_t>(meeting)));
    } else if (messages.empty()) {
      reach(clock, numbering_.work(id));
    }
    return clock;
  }

  /// Requires: it has started.
  ClockView of(InstructionId id) { return instruction_[id.index()]; }

  // Of these, all that they need has started.

  /// When the message is out; under rendezvous it is received then. That the one before it is out goes
  /// without saying: its ends have the same queues, so they are complete when these start, or start with them
  /// in one group.
  ClockView sent(std::size_t m) {
    if (sent_.has(m)) return sent_[m];
    const Clock clock = sent_.make(m);
    const Message& message = graph_.messages[m];
    merge(clock, message.send);
    reach(clock, numbering_.sent(m));
    if (!graph_.capabilities.credits) {
      merge(clock, message.receive);
      reach(clock, numbering_.received(m));
    } else if (message.credit >= 0) {
      merge_clock(clock, received(static_cast<std::size_t>(message.credit)));
    }
    return clock;
  }

  ClockView received(std::size_t m) {
    if (!graph_.capabilities.credits) return sent(m);
    if (received_.has(m)) return received_[m];
    const Clock clock = received_.make(m);
    merge_clock(clock, sent(m));
    merge(clock, graph_.messages[m].receive);
    reach(clock, numbering_.received(m));
    return clock;
  }

  ClockView met(std::size_t meeting) {
    if (met_.has(meeting)) return met_[meeting];
    const Clock clock = met_.make(meeting);
    for (const InstructionId member : graph_.members_of(graph_.meetings[meeting])) merge(clock, member);
    reach(clock, numbering_.met(meeting));
    return clock;
  }

 private:
  using Clock = std::span<std::int32_t>;

  /// When the part of the message that belongs to `id` is over.
  ClockView end(std::size_t message, InstructionId id) {
    return graph_.messages[message].receive == id ? received(message) : sent(message);
  }

  void merge(Clock into, InstructionId id) { merge_clock(into, instruction_[id.index()]); }

  static void reach(Clock clock, ClockPart part) {
    if (part.track < 0) return;
    std::int32_t& count = clock[static_cast<std::size_t>(part.track)];
    count = std::max(count, part.count);
  }

  const ExecutionGraph& graph_;
  const Numbering& numbering_;
  ClockTable instruction_;
  ClockTable sent_;
  ClockTable received_;
  ClockTable met_;
};

}  // namespace ppsim
