#include "in_process_transport.hpp"

#include <array>

#include "executor/payload.hpp"

namespace ppsim::gpu_backend {

InProcessTransport::InProcessTransport(const Program& program, const CpuStageModel& model,
                                       std::optional<int> credits, CompletionSink& sink)
    : program_(program), model_(model), sink_(sink), collectives_(program) {
  if (credits) credits_ = as_size(*credits);
}

void InProcessTransport::begin_step() {
  channels_.clear();
  collectives_.begin_step();
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
  std::unique_lock lock(mutex_);
  const auto match = collectives_.join(call);
  lock.unlock();
  if (match) complete_match(program_, model_, *match, sink_);
}

}  // namespace ppsim::gpu_backend
