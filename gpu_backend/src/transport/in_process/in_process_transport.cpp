#include "in_process_transport.hpp"

#include <algorithm>
#include <array>

#include "executor/payload.hpp"

namespace ppsim::gpu_backend {

InProcessTransport::InProcessTransport(const Program& program, const CpuStageModel& model,
                                       std::optional<int> credits, CompletionSink& sink)
    : program_(program), model_(model), sink_(sink) {
  if (credits) credits_ = as_size(*credits);
  begin_step();
}

void InProcessTransport::begin_step() {
  const auto ranks = as_size(program_.pipeline().ranks());
  channels_.clear();
  groups_.assign(program_.communicators().size(),
                 Group{.calls = std::vector<std::size_t>(ranks), .matches = {}});
}

void InProcessTransport::post(std::span<const Transfer> group) {
  std::vector<ChannelState*> touched;
  {
    const std::lock_guard lock(mutex_);
    for (const Transfer& end : group) {
      ChannelState& channel = channels_[end.channel];
      (end.direction == Direction::send ? channel.sends : channel.receives).push_back(end);
      touched.push_back(&channel);
    }
  }
  for (ChannelState* channel : touched) progress(*channel);
}

void InProcessTransport::progress(ChannelState& channel) {
  std::unique_lock lock(mutex_);
  if (channel.moving) return;  // that thread looks again before it stops
  channel.moving = true;
  while (move_one(channel, lock)) {
  }
  channel.moving = false;
}

bool InProcessTransport::move_one(ChannelState& channel, std::unique_lock<std::mutex>& lock) {
  if (!credits_) return move_directly(channel, lock);
  return move_in(channel, lock) || move_out(channel, lock);
}

bool InProcessTransport::move_directly(ChannelState& channel, std::unique_lock<std::mutex>& lock) {
  if (channel.sends.empty() || channel.receives.empty()) return false;
  const Transfer send = channel.sends.front();
  const Transfer receive = channel.receives.front();
  channel.sends.pop_front();
  channel.receives.pop_front();
  lock.unlock();
  copy_payload(send.payload, receive.payload);
  sink_.complete(std::array{send.instruction, receive.instruction});
  lock.lock();
  return true;
}

bool InProcessTransport::move_in(ChannelState& channel, std::unique_lock<std::mutex>& lock) {
  if (channel.arrived.empty() || channel.receives.empty()) return false;
  const Transfer receive = channel.receives.front();
  const std::vector<std::byte>& message = channel.arrived.front();
  channel.receives.pop_front();
  lock.unlock();
  check_sizes(size_of(receive.payload), message.size());
  unpack(message, receive.payload);
  sink_.complete(std::array{receive.instruction});
  lock.lock();
  channel.arrived.pop_front();  // only now is its credit free
  return true;
}

bool InProcessTransport::move_out(ChannelState& channel, std::unique_lock<std::mutex>& lock) {
  if (channel.sends.empty() || channel.arrived.size() >= *credits_) return false;
  const Transfer send = channel.sends.front();
  channel.sends.pop_front();
  lock.unlock();
  std::vector<std::byte> message = pack(send.payload);
  sink_.complete(std::array{send.instruction});
  lock.lock();
  channel.arrived.push_back(std::move(message));
  return true;
}

void InProcessTransport::post(const CollectiveCall& call) {
  std::optional<std::vector<CollectiveCall>> match = join(call);
  if (!match) return;
  std::vector<InstructionId> members;
  for (const CollectiveCall& member : *match) members.push_back(member.instruction);
  reduce(program_, model_, *match);
  sink_.complete(members);
}

/// Returns: the match that this call completes, in rank order.
std::optional<std::vector<CollectiveCall>> InProcessTransport::join(const CollectiveCall& call) {
  const std::lock_guard lock(mutex_);
  Group& group = groups_[call.communicator.index()];
  const std::size_t nth = group.calls[call.rank.index()]++ - group.met;
  if (nth >= group.matches.size()) group.matches.resize(nth + 1);
  group.matches[nth].push_back(call);
  if (group.matches[nth].size() < program_.communicator(call.communicator).members.size())
    return std::nullopt;
  // Members join in order, so the first match is the first to be complete.
  std::vector<CollectiveCall> match = std::move(group.matches.front());
  group.matches.pop_front();
  ++group.met;
  std::ranges::sort(match, {}, &CollectiveCall::rank);
  return match;
}

}  // namespace ppsim::gpu_backend
