#include "track_pass.hpp"

#include <algorithm>

namespace ppsim {
namespace {

using Clock = std::span<std::int32_t>;

void merge_clock(Clock into, TrackClock from) {
  for (std::size_t track = 0; track < into.size(); ++track) into[track] = std::max(into[track], from[track]);
}

void reach(Clock clock, RankParts::Part part) {
  if (part.track < 0) return;
  std::int32_t& count = clock[static_cast<std::size_t>(part.track)];
  count = std::max(count, part.count);
}

}  // namespace

std::span<std::int32_t> TrackClocks::make(std::size_t row) {
  place_[row] = made_++;
  const std::span<std::int32_t> clock = (*this)[row];
  std::fill(clock.begin(), clock.end(), 0);
  return clock;
}

TrackPass::TrackPass(const ExecutionGraph& graph, const RankParts& parts)
    : graph_(graph),
      parts_(parts),
      instruction_(graph.size(), parts.tracks()),
      sent_(graph.messages.size(), parts.tracks()),
      received_(graph.capabilities.credits ? graph.messages.size() : 0, parts.tracks()),
      met_(graph.meetings.size(), parts.tracks()) {}

TrackClock TrackPass::start(InstructionId id) {
  const Clock clock = instruction_.make(id.index());
  for (const InstructionId predecessor : graph_.predecessors_of(id)) merge(clock, predecessor);
  return clock;
}

TrackClock TrackPass::complete(InstructionId id, std::span<const RankParts::Part> own) {
  const Clock clock = instruction_[id.index()];
  const auto messages = graph_.messages_of(id);
  if (messages.size() > 1) {
    for (const std::uint32_t m : messages) end(m, id);  // all from the start's clock, before it changes
  }
  for (const std::uint32_t m : messages) merge_clock(clock, end(m, id));
  if (const std::int32_t meeting = graph_.meeting_of[id.index()]; meeting >= 0) {
    merge_clock(clock, met(static_cast<std::size_t>(meeting)));
  }
  for (const RankParts::Part part : own) reach(clock, part);
  return clock;
}

/// When the part of the message that belongs to `id` is over.
TrackClock TrackPass::end(std::size_t message, InstructionId id) {
  return graph_.messages[message].receive == id ? received(message) : sent(message);
}

/// When the message is out; under rendezvous it is received then. That the one before it is out goes without
/// saying: its ends have the same queues, so they are complete when these start, or start with them in one
/// group.
TrackClock TrackPass::sent(std::size_t m) {
  if (sent_.has(m)) return sent_[m];
  const Clock clock = sent_.make(m);
  const Message& message = graph_.messages[m];
  merge(clock, message.send);
  reach(clock, parts_.sent(m));
  if (!graph_.capabilities.credits) {
    merge(clock, message.receive);
    reach(clock, parts_.received(m));
  } else if (message.credit >= 0) {
    merge_clock(clock, received(static_cast<std::size_t>(message.credit)));
  }
  return clock;
}

TrackClock TrackPass::received(std::size_t m) {
  if (!graph_.capabilities.credits) return sent(m);
  if (received_.has(m)) return received_[m];
  const Clock clock = received_.make(m);
  merge_clock(clock, sent(m));
  merge(clock, graph_.messages[m].receive);
  reach(clock, parts_.received(m));
  return clock;
}

TrackClock TrackPass::met(std::size_t meeting) {
  if (met_.has(meeting)) return met_[meeting];
  const Clock clock = met_.make(meeting);
  for (const InstructionId member : graph_.members_of(graph_.meetings[meeting])) merge(clock, member);
  reach(clock, parts_.met(meeting));
  return clock;
}

void TrackPass::merge(std::span<std::int32_t> into, InstructionId id) {
  merge_clock(into, instruction_[id.index()]);
}

}  // namespace ppsim
