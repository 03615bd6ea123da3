#include "in_process_transport.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "ppsim/gpu_backend/device.hpp"

namespace ppsim {
namespace {

std::size_t size_of(const Payload& payload) { return payload[0].size() + payload[1].size(); }

void check_sizes(std::size_t to, std::size_t from) {
  if (to == from) return;
  throw BackendError(
      ErrorCode::bad_argument,
      "a payload of " + std::to_string(from) + " bytes meets a payload of " + std::to_string(to) + " bytes");
}

std::vector<std::byte> pack(const Payload& payload) {
  std::vector<std::byte> bytes;
  bytes.reserve(size_of(payload));
  for (const std::span<std::byte> piece : payload) bytes.insert(bytes.end(), piece.begin(), piece.end());
  return bytes;
}

/// Copies bytes, in order, into the pieces of a payload of the same size.
void unpack(std::span<const std::byte> bytes, const Payload& to) {
  for (const std::span<std::byte> piece : to) {
    std::copy_n(bytes.begin(), piece.size(), piece.begin());
    bytes = bytes.subspan(piece.size());
  }
}

void copy(const Payload& from, const Payload& to) {
  check_sizes(size_of(to), size_of(from));
  if (from[1].empty() && to[1].empty()) {
    std::copy(from[0].begin(), from[0].end(), to[0].begin());
  } else {
    unpack(pack(from), to);
  }
}

void add_norm(std::span<std::byte> into, std::span<const std::byte> from) {
  double a = 0;
  double b = 0;
  check_sizes(into.size(), sizeof a);
  std::memcpy(&a, into.data(), sizeof a);
  std::memcpy(&b, from.data(), sizeof b);
  a += b;
  std::memcpy(into.data(), &a, sizeof a);
}

}  // namespace

InProcessTransport::InProcessTransport(const Program& program, const StageModel& model,
                                       std::optional<int> credits, CompletionSink& sink)
    : program_(program), model_(model), sink_(sink) {
  if (credits) credits_ = static_cast<std::size_t>(*credits);
  begin_step();
}

void InProcessTransport::begin_step() {
  const auto ranks = static_cast<std::size_t>(program_.pipeline().ranks());
  channels_.clear();
  groups_.assign(program_.communicators().size(),
                 Group{.calls = std::vector<std::size_t>(ranks), .meetings = {}});
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
  copy(send.payload, receive.payload);
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
  std::optional<std::vector<CollectiveCall>> meeting = join(call);
  if (!meeting) return;
  reduce(*meeting);
  std::vector<InstructionId> members;
  for (const CollectiveCall& member : *meeting) members.push_back(member.instruction);
  sink_.complete(members);
}

/// Returns: the meeting that this call completes, in rank order.
std::optional<std::vector<CollectiveCall>> InProcessTransport::join(const CollectiveCall& call) {
  const std::lock_guard lock(mutex_);
  Group& group = groups_[call.communicator.index()];
  const std::size_t nth = group.calls[call.rank.index()]++ - group.met;
  if (nth >= group.meetings.size()) group.meetings.resize(nth + 1);
  group.meetings[nth].push_back(call);
  if (group.meetings[nth].size() < program_.communicator(call.communicator).members.size())
    return std::nullopt;
  // Members join in order, so the first meeting is the first to be complete.
  std::vector<CollectiveCall> meeting = std::move(group.meetings.front());
  group.meetings.pop_front();
  ++group.met;
  std::sort(meeting.begin(), meeting.end(),
            [](const CollectiveCall& a, const CollectiveCall& b) { return a.rank < b.rank; });
  return meeting;
}

void InProcessTransport::reduce(std::span<const CollectiveCall> meeting) const {
  std::vector<std::span<std::byte>> payloads;
  for (const CollectiveCall& call : meeting) {
    if (!call.payload.empty()) payloads.push_back(call.payload);
  }
  if (payloads.empty()) return;
  for (std::size_t i = 1; i < payloads.size(); ++i) {
    check_sizes(payloads[0].size(), payloads[i].size());
    add(meeting.front().reduction, payloads[0], payloads[i]);
  }
  for (std::size_t i = 1; i < payloads.size(); ++i) {
    std::copy(payloads[0].begin(), payloads[0].end(), payloads[i].begin());
  }
}

void InProcessTransport::add(Reduction reduction, std::span<std::byte> into,
                             std::span<const std::byte> from) const {
  switch (reduction) {
    case Reduction::none:
      return;
    case Reduction::gradients:
      return model_.accumulate(into, from);
    case Reduction::norm:
      return add_norm(into, from);
  }
}

}  // namespace ppsim
