#include "emulated_transport.hpp"

#include <algorithm>
#include <array>
#include <exception>
#include <utility>

#include "executor/payload.hpp"

namespace ppsim::gpu_backend {

EmulatedTransport::EmulatedTransport(const RunInput& input, CompletionSink& sink)
    : program_(input.program),
      model_(input.model),
      times_(input.times),
      sink_(sink),
      collectives_(input.program) {
  const auto& credits = input.options.capabilities.credits;
  if (credits) credits_ = as_size(*credits);
}

/// On the thread of the timers, which no exception may leave.
template <class Call>
void EmulatedTransport::at_its_time(const Call& call) {
  try {
    const std::lock_guard lock(mutex_);
    call();
    sink_.landed();
  } catch (...) {
    sink_.fail(std::current_exception());
  }
}

void EmulatedTransport::begin_step() {
  const std::lock_guard lock(mutex_);
  channels_.clear();
  collectives_.begin_step();
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
    const Nanoseconds takes = times_(send.instruction, send.member);
    if (takes == 0) {
      land(channel);
      continue;
    }
    const Time due = std::max(now, posted(channel)) + std::chrono::nanoseconds(takes);
    sink_.in_flight();
    timers_.set(due, [this, &channel, due] { at_its_time([&] { arrive(channel, due); }); });
  }
}

void EmulatedTransport::arrive(ChannelState& channel, Time due) {
  land(channel);
  progress(channel, due);
}

bool EmulatedTransport::may_move(const ChannelState& channel) const {
  if (channel.moving || channel.sends.empty()) return false;
  return credits_ ? channel.arrived.size() < *credits_ : !channel.receives.empty();
}

/// When the ends were there that the next message of a channel begins with.
EmulatedTransport::Time EmulatedTransport::posted(const ChannelState& channel) const {
  const Time sent = channel.sends.front().at;
  return credits_ ? sent : std::max(sent, channel.receives.front().at);
}

void EmulatedTransport::land(ChannelState& channel) {
  channel.moving = false;
  const Transfer send = channel.sends.front().transfer;
  channel.sends.pop_front();
  if (credits_) {
    channel.arrived.push_back(pack(send.payload));
    sink_.complete(std::array{send.instruction});
    receive(channel);
  } else {
    const Transfer received = channel.receives.front().transfer;
    channel.receives.pop_front();
    copy_payload(send.payload, received.payload);
    sink_.complete(std::array{send.instruction, received.instruction});
  }
}

void EmulatedTransport::receive(ChannelState& channel) {
  while (!channel.arrived.empty() && !channel.receives.empty()) {
    const Transfer received = channel.receives.front().transfer;
    check_sizes(size_of(received.payload), channel.arrived.front().size());
    unpack(channel.arrived.front(), received.payload);
    channel.arrived.pop_front();
    channel.receives.pop_front();
    sink_.complete(std::array{received.instruction});
  }
}

void EmulatedTransport::post(const CollectiveCall& call) {
  const std::lock_guard lock(mutex_);
  const Time now = WallClock::now();
  std::optional<std::vector<CollectiveCall>> match = collectives_.join(call);
  if (!match) return;
  const Nanoseconds takes = times_(match->front().instruction, 0);
  if (takes == 0) return complete_match(program_, model_, *match, sink_);
  sink_.in_flight();
  timers_.set(now + std::chrono::nanoseconds(takes), [this, match = *std::move(match)] {
    at_its_time([&] { complete_match(program_, model_, match, sink_); });
  });
}

}  // namespace ppsim::gpu_backend
