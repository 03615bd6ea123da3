#include "ppsim/core/happens_before.hpp"

#include <algorithm>
#include <map>

#include "ppsim/core/check.hpp"

namespace ppsim {
namespace {

using Count = std::int32_t;

/// A table of clocks: per row, how many instructions of each lane are complete for certain.
class Clocks {
 public:
  Clocks(std::size_t rows, int lanes) : lanes_(static_cast<std::size_t>(lanes)), counts_(rows * lanes_, 0) {}

  [[nodiscard]] std::span<Count> operator[](std::size_t row) {
    return {counts_.data() + row * lanes_, lanes_};
  }

 private:
  std::size_t lanes_;
  std::vector<Count> counts_;
};

void merge(std::span<Count> into, std::span<const Count> from) {
  for (std::size_t lane = 0; lane < into.size(); ++lane) into[lane] = std::max(into[lane], from[lane]);
}

/// Carries the clocks of one rank's lanes through a run order of the whole Program.
///
/// The clock of an instruction is that of its start until it completes, and that of its completion from then
/// on. What its partners need of the start is taken into the clock of the message or the meeting, at the
/// latest when the first of the ends completes.
class ClockPass {
 public:
  ClockPass(const ExecutionGraph& graph, int lanes)
      : graph_(graph),
        instruction_(graph.size(), lanes),
        sent_(graph.messages.size(), lanes),
        received_(graph.capabilities.credits ? graph.messages.size() : 0, lanes),
        met_(graph.meetings.size(), lanes),
        sent_known_(graph.messages.size(), false),
        received_known_(graph.messages.size(), false),
        met_known_(graph.meetings.size(), false) {}

  std::span<Count> start(InstructionId id) {
    const std::span<Count> clock = instruction_[id.index()];
    for (const InstructionId predecessor : graph_.predecessors_of(id)) {
      merge(clock, instruction_[predecessor.index()]);
    }
    return clock;
  }

  std::span<Count> complete(InstructionId id) {
    const std::span<Count> clock = instruction_[id.index()];
    const auto messages = graph_.messages_of(id);
    for (const std::uint32_t m : messages) end(m, id);
    for (const std::uint32_t m : messages) merge(clock, end(m, id));
    if (const std::int32_t meeting = graph_.meeting_of[id.index()]; meeting >= 0) {
      merge(clock, met(static_cast<std::size_t>(meeting)));
    }
    return clock;
  }

 private:
  /// When the part of message `m` that belongs to `id` is over.
  std::span<const Count> end(std::size_t m, InstructionId id) {
    return graph_.messages[m].receive == id ? received(m) : sent(m);
  }

  /// When the message is out; under rendezvous both ends are over then.
  std::span<const Count> sent(std::size_t m) {
    const std::span<Count> clock = sent_[m];
    if (sent_known_[m]) return clock;
    sent_known_[m] = true;
    const Message& message = graph_.messages[m];
    merge(clock, instruction_[message.send.index()]);
    if (message.previous >= 0) merge(clock, sent(static_cast<std::size_t>(message.previous)));
    if (!graph_.capabilities.credits) {
      merge(clock, instruction_[message.receive.index()]);
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
    return clock;
  }

  std::span<const Count> met(std::size_t meeting) {
    const std::span<Count> clock = met_[meeting];
    if (met_known_[meeting]) return clock;
    met_known_[meeting] = true;
    for (const InstructionId member : graph_.members_of(graph_.meetings[meeting])) {
      merge(clock, instruction_[member.index()]);
    }
    return clock;
  }

  const ExecutionGraph& graph_;
  Clocks instruction_;
  Clocks sent_;
  Clocks received_;
  Clocks met_;
  std::vector<bool> sent_known_;
  std::vector<bool> received_known_;
  std::vector<bool> met_known_;
};

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
  std::vector<Count> length(static_cast<std::size_t>(result.lanes_), 0);
  for (InstructionId id = result.first_; id < last; id = next(id)) {
    const int lane = lane_of_queue[first_queue(program, id)];
    result.lane_.push_back(lane);
    result.index_in_lane_.push_back(length[static_cast<std::size_t>(lane)]++);
  }
  const std::size_t cells = result.lane_.size() * static_cast<std::size_t>(result.lanes_);
  result.before_start_.resize(cells);
  result.before_end_.resize(cells);
  if (cells > 0) result.fill(graph, order, last);
  return result;
}

void HappensBefore::fill(const ExecutionGraph& graph, const RunOrder& order, InstructionId last) {
  ClockPass pass(graph, lanes_);
  for (const std::uint32_t item : order.items) {
    const InstructionId id(static_cast<std::int32_t>(item / 2));
    const bool completes = item % 2 == 1;
    const std::span<Count> clock = completes ? pass.complete(id) : pass.start(id);
    if (id < first_ || id >= last) continue;
    if (completes) clock[static_cast<std::size_t>(lane_of(id))] = index_in_lane(id) + 1;
    std::vector<Count>& rows = completes ? before_end_ : before_start_;
    std::copy(clock.begin(), clock.end(), rows.begin() + static_cast<std::ptrdiff_t>(row(id)));
  }
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
