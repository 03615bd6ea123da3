#include "emulated_transport.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace ppsim::gpu_backend {

EmulatedTransport::EmulatedTransport(const Program& program, const CostTable& costs,
                                     std::optional<int> credits, CompletionSink& sink)
    : program_(program), costs_(costs), credits_(credits), sink_(sink) {
  begin_step();
}

void EmulatedTransport::begin_step() {
  const std::lock_guard lock(mutex_);
  const auto ranks = static_cast<std::size_t>(program_.pipeline().ranks());
  channels_.clear();
  meetings_.assign(program_.communicators().size(),
                   Meetings{.calls = std::vector<std::size_t>(ranks), .open = {}});
}

Nanoseconds EmulatedTransport::cost(InstructionId instruction, std::uint32_t member) const {
  return costs_(cost_class_of(program_.actions(instruction)[member]));
}

void EmulatedTransport::post(std::span<const Transfer> group) {
  const std::lock_guard lock(mutex_);
  const Time now = WallClock::now();
  for (const Transfer& end : group) {
    ChannelState& channel = channels_[end.channel];
    (end.direction == Direction::send ? channel.sends : channel.receives).push_back({end, now});
  }
  for (const Transfer& end : group) progress(channels_[end.channel], now);
}

/// Moves all that can move at `now`, which may be a little past: operations posted since begin when they were
/// posted.
void EmulatedTransport::progress(ChannelState& channel, Time now) {
  receive(channel);
  while (may_move(channel)) {
    channel.moving = true;
    const Transfer& send = channel.sends.front().transfer;
    const Nanoseconds takes = cost(send.instruction, send.member);
    if (takes == 0) {
      land(channel);
      continue;
    }
    const Time due = std::max(now, posted(channel)) + std::chrono::nanoseconds(takes);
    sink_.in_flight();
    timers_.set(due, [this, &channel, due] {
      const std::lock_guard lock(mutex_);
      land(channel);
      progress(channel, due);
      sink_.landed();
    });
  }
}

bool EmulatedTransport::may_move(const ChannelState& channel) const {
  if (channel.moving || channel.sends.empty()) return false;
  return credits_ ? channel.arrived < *credits_ : !channel.receives.empty();
}

/// When the ends were there that the next message of a channel begins with.
EmulatedTransport::Time EmulatedTransport::posted(const ChannelState& channel) const {
  const Time sent = channel.sends.front().at;
  return credits_ ? sent : std::max(sent, channel.receives.front().at);
}

void EmulatedTransport::land(ChannelState& channel) {
  channel.moving = false;
  const InstructionId send = channel.sends.front().transfer.instruction;
  channel.sends.pop_front();
  if (credits_) {
    sink_.complete(std::array{send});
    ++channel.arrived;
    receive(channel);
  } else {
    const InstructionId received = channel.receives.front().transfer.instruction;
    channel.receives.pop_front();
    sink_.complete(std::array{send, received});
  }
}

void EmulatedTransport::receive(ChannelState& channel) {
  for (; channel.arrived > 0 && !channel.receives.empty(); --channel.arrived) {
    const InstructionId received = channel.receives.front().transfer.instruction;
    channel.receives.pop_front();
    sink_.complete(std::array{received});
  }
}

void EmulatedTransport::post(const CollectiveCall& call) {
  const std::lock_guard lock(mutex_);
  const Time now = WallClock::now();
  std::optional<std::vector<CollectiveCall>> meeting = join(call);
  if (!meeting) return;
  const Nanoseconds takes = cost(meeting->front().instruction, 0);
  if (takes == 0) return end(*meeting);
  sink_.in_flight();
  timers_.set(now + std::chrono::nanoseconds(takes), [this, meeting = *std::move(meeting)] {
    const std::lock_guard alarm_lock(mutex_);
    end(meeting);
    sink_.landed();
  });
}

/// Returns: the meeting that this call completes, in rank order.
std::optional<std::vector<CollectiveCall>> EmulatedTransport::join(const CollectiveCall& call) {
  Meetings& meetings = meetings_[call.communicator.index()];
  const std::size_t nth = meetings.calls[call.rank.index()]++ - meetings.met;
  if (nth >= meetings.open.size()) meetings.open.resize(nth + 1);
  meetings.open[nth].push_back(call);
  if (meetings.open[nth].size() < program_.communicator(call.communicator).members.size())
    return std::nullopt;
  // Members join in order, so the first meeting is the first to be complete.
  std::vector<CollectiveCall> meeting = std::move(meetings.open.front());
  meetings.open.pop_front();
  ++meetings.met;
  std::sort(meeting.begin(), meeting.end(),
            [](const CollectiveCall& a, const CollectiveCall& b) { return a.rank < b.rank; });
  return meeting;
}

void EmulatedTransport::end(const std::vector<CollectiveCall>& meeting) {
  std::vector<InstructionId> members;
  for (const CollectiveCall& member : meeting) members.push_back(member.instruction);
  sink_.complete(members);
}

}  // namespace ppsim::gpu_backend
