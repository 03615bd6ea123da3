#pragma once

#include <algorithm>
#include <cstdint>
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

/// The event at one position of a ClockPlan.
enum class ClockEvent : std::uint8_t {
  start,     ///< of an instruction
  work,      ///< the end of an instruction that is no communication
  sent,      ///< a message is out; under rendezvous it is received then
  received,  ///< a message is received, with credits
  met,       ///< all members of a collective have started
  complete,  ///< the end of an instruction of messages, or of a member of a collective
};

/// How clocks go through a run order of a whole Program, worked out once for all that is counted: a clock for
/// each event is the union of earlier ones. Which tracks clocks have is up to the numbering of run():
///
///   std::size_t tracks() const
///   ClockPart work(InstructionId) const     the end of an instruction that is no communication
///   ClockPart sent(std::size_t) const       of a message: it is out
///   ClockPart received(std::size_t) const   of a message
///   ClockPart member(InstructionId) const   the end of a member of a collective; nothing else has one
///
/// The clock of an instruction is that of its start until it completes, and that of its completion from then
/// on. What its partners need of the start is taken into the clock of the message or the match, at the
/// latest when the first of the ends completes. Messages have clocks of their own because their ends are over
/// together: who knows that a RECV is complete knows that its SEND's message is out. Members of a collective
/// complete one by one (E7): who knows that one is complete knows that all have started, and no more.
class ClockPlan {
 public:
  /// Requires: `order` is a complete run order of the graph, or of one with more waits.
  ClockPlan(const ExecutionGraph& graph, const RunOrder& order);

  /// Bytes that making the plan of a graph takes.
  [[nodiscard]] static std::size_t bytes_of(const ExecutionGraph& graph);

  /// Calls visit(event, subject, clock) for one event after another: `subject` is the index of an
  /// instruction, a message or a match, and the clock holds the subject's own part except at its start.
  template <class Numbering, class Visit>
  void run(const Numbering& numbering, const Visit& visit) const;

  /// Bytes that the clocks of a run take.
  [[nodiscard]] std::size_t bytes_of_run(std::size_t tracks) const {
    return rows_ * width(tracks) * sizeof(std::int32_t);
  }

 private:
  friend class ClockPlanMaker;
  struct Entry {
    ClockEvent event;
    bool fresh = true;  ///< the row holds nothing that counts
    std::uint32_t subject;
    std::uint32_t row;
    std::uint32_t sources_end;  ///< into sources_, from where those of the entry before end
  };
  static constexpr std::size_t kVector = 4;  // tracks that are merged at once

  [[nodiscard]] static std::size_t width(std::size_t tracks) {
    return (tracks + kVector - 1) / kVector * kVector;
  }
  static void copy(std::int32_t* into, const std::int32_t* from, std::size_t width) {
    for (std::size_t at = 0; at < width; at += kVector) {
      for (std::size_t i = at; i < at + kVector; ++i) into[i] = from[i];
    }
  }
  static void merge(std::int32_t* into, const std::int32_t* from, std::size_t width) {
    for (std::size_t at = 0; at < width; at += kVector) {
      for (std::size_t i = at; i < at + kVector; ++i) into[i] = std::max(into[i], from[i]);
    }
  }
  static void reach(std::int32_t* clock, ClockPart part) {
    if (part.track >= 0) clock[part.track] = std::max(clock[part.track], part.count);
  }
  template <class Numbering>
  void add_part(const Numbering& numbering, const Entry& entry, std::int32_t* clock) const;

  bool rendezvous_;
  std::vector<Entry> entries_;
  std::vector<std::uint32_t> sources_;  ///< rows
  std::size_t rows_ = 0;                ///< most that are in use at once
};

template <class Numbering>
void ClockPlan::add_part(const Numbering& numbering, const Entry& entry, std::int32_t* clock) const {
  switch (entry.event) {
    case ClockEvent::start:
    case ClockEvent::met:
      return;
    case ClockEvent::complete:
      return reach(clock, numbering.member(InstructionId(static_cast<std::int32_t>(entry.subject))));
    case ClockEvent::work:
      return reach(clock, numbering.work(InstructionId(static_cast<std::int32_t>(entry.subject))));
    case ClockEvent::sent:
      reach(clock, numbering.sent(entry.subject));
      if (rendezvous_) reach(clock, numbering.received(entry.subject));
      return;
    case ClockEvent::received:
      return reach(clock, numbering.received(entry.subject));
  }
}

template <class Numbering, class Visit>
void ClockPlan::run(const Numbering& numbering, const Visit& visit) const {
  const std::size_t tracks = numbering.tracks();
  const std::size_t row = width(tracks);
  std::vector<std::int32_t> rows(rows_ * row);
  const std::vector<std::int32_t> none(row, 0);
  const std::uint32_t* source = sources_.data();
  for (const Entry& entry : entries_) {
    std::int32_t* const clock = rows.data() + entry.row * row;
    const std::uint32_t* const end = sources_.data() + entry.sources_end;
    if (entry.fresh) copy(clock, source == end ? none.data() : rows.data() + *source++ * row, row);
    for (; source != end; ++source) merge(clock, rows.data() + *source * row, row);
    add_part(numbering, entry, clock);
    visit(entry.event, entry.subject, ClockView(clock, tracks));
  }
}

}  // namespace ppsim
