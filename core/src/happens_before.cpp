#include "ppsim/core/happens_before.hpp"

#include <algorithm>
#include <map>

#include "ppsim/core/check.hpp"
#include "rank_parts.hpp"

namespace ppsim {
namespace {

using Count = std::int32_t;

/// A table of clocks: per row, how far each track has come for certain.
class Clocks {
 public:
  Clocks(std::size_t rows, int tracks)
      : tracks_(static_cast<std::size_t>(tracks)), counts_(rows * tracks_, 0) {}

  [[nodiscard]] std::span<Count> operator[](std::size_t row) {
    return {counts_.data() + row * tracks_, tracks_};
  }

 private:
  std::size_t tracks_;
  std::vector<Count> counts_;
};

void merge(std::span<Count> into, std::span<const Count> from) {
  for (std::size_t track = 0; track < into.size(); ++track) into[track] = std::max(into[track], from[track]);
}

void reach(std::span<Count> clock, RankParts::Part part) {
  if (part.track < 0) return;
  Count& count = clock[static_cast<std::size_t>(part.track)];
  count = std::max(count, part.count);
}

/// Carries the clocks of one rank's tracks through a run order of the whole Program.
///
/// The clock of an instruction is that of its start until it completes, and that of its completion from then
/// on. What its partners need of the start is taken into the clock of the message or the meeting, at the
/// latest when the first of the ends completes. Messages and meetings have clocks of their own because their
/// ends are over together: who knows that a RECV is complete knows that its SEND's message is out.
class ClockPass {
 public:
  ClockPass(const ExecutionGraph& graph, const RankParts& parts)
      : graph_(graph),
        parts_(parts),
        instruction_(graph.size(), parts.tracks()),
        sent_(graph.messages.size(), parts.tracks()),
        received_(graph.capabilities.credits ? graph.messages.size() : 0, parts.tracks()),
        met_(graph.meetings.size(), parts.tracks()),
        sent_known_(graph.messages.size(), false),
        received_known_(graph.messages.size(), false),
        met_known_(graph.meetings.size(), false) {}

  std::span<const Count> start(InstructionId id) {
    const std::span<Count> clock = instruction_[id.index()];
    for (const InstructionId predecessor : graph_.predecessors_of(id)) {
      merge(clock, instruction_[predecessor.index()]);
    }
    return clock;
  }

  /// `own`: the instruction's parts where it is one of the rank, else none.
  std::span<const Count> complete(InstructionId id, std::span<const RankParts::Part> own) {
    const std::span<Count> clock = instruction_[id.index()];
    const auto messages = graph_.messages_of(id);
    for (const std::uint32_t m : messages) end(m, id);
    for (const std::uint32_t m : messages) merge(clock, end(m, id));
    if (const std::int32_t meeting = graph_.meeting_of[id.index()]; meeting >= 0) {
      merge(clock, met(static_cast<std::size_t>(meeting)));
    }
    for (const RankParts::Part part : own) reach(clock, part);
    return clock;
  }

 private:
  /// When the part of message `m` that belongs to `id` is over.
  std::span<const Count> end(std::size_t m, InstructionId id) {
    return graph_.messages[m].receive == id ? received(m) : sent(m);
  }

  /// When the message is out; under rendezvous it is received then.
  std::span<const Count> sent(std::size_t m) {
    const std::span<Count> clock = sent_[m];
    if (sent_known_[m]) return clock;
    sent_known_[m] = true;
    const Message& message = graph_.messages[m];
    merge(clock, instruction_[message.send.index()]);
    if (message.previous >= 0) merge(clock, sent(static_cast<std::size_t>(message.previous)));
    reach(clock, parts_.sent(m));
    if (!graph_.capabilities.credits) {
      merge(clock, instruction_[message.receive.index()]);
      reach(clock, parts_.received(m));
    } else if (message.credit >= 0) {
      merge(clock, received(static_cast<std::size_t>(message.credit)));
    }
    return clock;
  }

  std::span<const Count> received(std::size_t m) {
    if (!graph_.capabilities.credits) return sent(m);
    const std::span<Count> clock = received_[m];
    if (received_known_[m]) return clock;
    received_known_[m] = true;
    merge(clock, sent(m));
    merge(clock, instruction_[graph_.messages[m].receive.index()]);
    reach(clock, parts_.received(m));
    return clock;
  }

  std::span<const Count> met(std::size_t meeting) {
    const std::span<Count> clock = met_[meeting];
    if (met_known_[meeting]) return clock;
    met_known_[meeting] = true;
    for (const InstructionId member : graph_.members_of(graph_.meetings[meeting])) {
      merge(clock, instruction_[member.index()]);
    }
    reach(clock, parts_.met(meeting));
    return clock;
  }

  const ExecutionGraph& graph_;
  const RankParts& parts_;
  Clocks instruction_;
  Clocks sent_;
  Clocks received_;
  Clocks met_;
  std::vector<bool> sent_known_;
  std::vector<bool> received_known_;
  std::vector<bool> met_known_;
};

/// Instructions of one rank, lane by lane.
using Lanes = std::vector<std::vector<InstructionId>>;

/// How many of a lane's instructions are complete by a clock: they complete one after another.
Count complete_of(const std::vector<InstructionId>& lane, const RankParts& parts,
                  std::span<const Count> clock) {
  const auto is_complete = [&](InstructionId id) {
    const auto own = parts.of(id);
    return std::all_of(own.begin(), own.end(), [&](const RankParts::Part& part) {
      return clock[static_cast<std::size_t>(part.track)] >= part.count;
    });
  };
  return static_cast<Count>(std::partition_point(lane.begin(), lane.end(), is_complete) - lane.begin());
}

/// The first queue of an instruction.
int first_queue(const Program& program, InstructionId id) {
  const auto actions = program.actions(id);
  const auto communicators = program.communicators_of(id);
  int queue = program.queue_of(actions[0], communicators[0]);
  for (std::size_t i = 1; i < actions.size(); ++i) {
    queue = std::min(queue, program.queue_of(actions[i], communicators[i]));
  }
  return queue;
}

InstructionId next(InstructionId id) { return InstructionId(id.value() + 1); }

}  // namespace

HappensBefore HappensBefore::of_rank(const Program& program, const ExecutionGraph& graph,
                                     const RunOrder& order, RankId rank) {
  PPSIM_CHECK(order.complete, "happens-before of a Program that does not finish");
  HappensBefore result;
  result.first_ = program.first(rank);
  const InstructionId last = program.last(rank);
  std::map<int, int> lane_of_queue;
  for (InstructionId id = result.first_; id < last; id = next(id))
    lane_of_queue[first_queue(program, id)] = 0;
  for (auto& [queue, lane] : lane_of_queue) lane = result.lanes_++;
  Lanes lanes(static_cast<std::size_t>(result.lanes_));
  for (InstructionId id = result.first_; id < last; id = next(id)) {
    const int lane = lane_of_queue[first_queue(program, id)];
    std::vector<InstructionId>& list = lanes[static_cast<std::size_t>(lane)];
    result.lane_.push_back(lane);
    result.index_in_lane_.push_back(static_cast<Count>(list.size()));
    list.push_back(id);
  }
  const std::size_t cells = result.lane_.size() * lanes.size();
  result.before_start_.resize(cells);
  result.before_end_.resize(cells);
  const RankParts parts(program, graph, rank);
  ClockPass pass(graph, parts);
  for (const std::uint32_t item : order.items) {
    const InstructionId id(static_cast<std::int32_t>(item / 2));
    const bool own = id >= result.first_ && id < last;
    const bool completes = item % 2 == 1;
    const auto own_parts = own ? parts.of(id) : std::span<const RankParts::Part>();
    const std::span<const Count> clock = completes ? pass.complete(id, own_parts) : pass.start(id);
    if (!own) continue;
    std::vector<Count>& rows = completes ? result.before_end_ : result.before_start_;
    for (std::size_t l = 0; l < lanes.size(); ++l) {
      rows[result.row(id) + l] = complete_of(lanes[l], parts, clock);
    }
  }
  return result;
}

bool HappensBefore::completes_before_start(InstructionId first, InstructionId second) const {
  return complete_before_start(second)[static_cast<std::size_t>(lane_of(first))] > index_in_lane(first);
}

bool HappensBefore::completes_before_completion(InstructionId first, InstructionId second) const {
  return complete_before_completion(second)[static_cast<std::size_t>(lane_of(first))] > index_in_lane(first);
}

std::span<const std::int32_t> HappensBefore::complete_before_start(InstructionId id) const {
  return {before_start_.data() + row(id), static_cast<std::size_t>(lanes_)};
}

std::span<const std::int32_t> HappensBefore::complete_before_completion(InstructionId id) const {
  return {before_end_.data() + row(id), static_cast<std::size_t>(lanes_)};
}

}  // namespace ppsim
