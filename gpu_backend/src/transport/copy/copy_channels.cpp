#include "copy_channels.hpp"

#include <algorithm>
#include <atomic>

#include "ppsim/core/io/text.hpp"
#include "ppsim/gpu_backend/executor/backend_error.hpp"

namespace ppsim::gpu_backend {
namespace {

/// Above every number that a step reaches.
constexpr CudaValue kReleased = CudaValue{1} << 62;

/// The channel of a transfer in an instruction.
Channel channel_of(const Program& program, InstructionId id, std::size_t member) {
  const Action& action = program.actions(id)[member];
  const RankId own = program.rank_of(id);
  const RankId peer = peer_rank(program.pipeline(), action);
  const CommunicatorId communicator = program.communicators_of(id)[member];
  return is_send(action.kind) ? Channel{communicator, own, peer} : Channel{communicator, peer, own};
}

/// Whether another channel of the group comes before that of a member on the same queue.
bool follows_another(const Program& program, InstructionId id, std::size_t member) {
  const auto queue = [&](std::size_t i) {
    return program.queue_of(program.actions(id)[i], program.communicators_of(id)[i]);
  };
  std::size_t first = 0;
  while (queue(first) != queue(member)) ++first;
  return channel_of(program, id, first) != channel_of(program, id, member);
}

}  // namespace

CopyChannels::CopyChannels(const Program& program, const std::vector<RankDevice*>& ranks,
                           const SharedMemory& memory)
    : program_(program), memory_(memory) {
  for (RankDevice* const rank : ranks) {
    RankState& state = ranks_.emplace_back();
    state.device = rank;
    state.fork = rank->make_event(false);
    for (RankDevice* const other : ranks) rank->device().enable_peer(other->device());
  }
  open_numbers(program);
  open_lanes(program);
}

void CopyChannels::open_numbers(const Program& program) {
  for (const auto& [channel, payloads] : memory_.receives) channels_.try_emplace(channel);
  for (const auto& [member, payloads] : memory_.sums) {
    if (program.communicator(member.first).members.size() > 1) members_[member] = {};
  }
  std::vector<std::size_t> used(ranks_.size(), 0);
  for (const auto& [channel, state] : channels_) used[channel.destination.index()] += 2;
  for (const auto& [member, state] : members_) ++used[member.second.index()];
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    const auto memory = ranks_[r].device->allocate_host(static_cast<Bytes>(used[r] * sizeof(CudaValue)));
    ranks_[r].numbers = {reinterpret_cast<CudaValue*>(memory.data()), used[r]};
  }
  const auto next = [&](RankId rank) {
    return address_of(&ranks_[rank.index()].numbers[--used[rank.index()]]);
  };
  for (auto& [channel, state] : channels_) {
    state.ready = next(channel.destination);
    state.done = next(channel.destination);
  }
  for (auto& [member, state] : members_) state.number = next(member.second);
}

void CopyChannels::open_lanes(const Program& program) {
  for (std::int32_t i = 0; i < static_cast<std::int32_t>(program.size()); ++i) {
    const InstructionId id(i);
    const auto actions = program.actions(id);
    if (!is_transfer(actions.front().kind)) continue;
    for (std::size_t member = 0; member < actions.size(); ++member) {
      const auto channel = channels_.find(channel_of(program, id, member));
      if (channel == channels_.end() || !follows_another(program, id, member)) continue;
      Lane& lane = is_send(actions[member].kind) ? channel->second.sends : channel->second.receives;
      if (lane.stream) continue;
      const RankDevice& device = *ranks_[program.rank_of(id).index()].device;
      lane = {device.make_stream(StreamPriority::highest), device.make_event(false)};
    }
  }
}

void CopyChannels::begin_step() {
  for (auto& [channel, state] : channels_) state.sent = state.received = 0;
  for (auto& [member, state] : members_) state.calls = 0;
  set_numbers(0);
}

void CopyChannels::set_numbers(CudaValue value) noexcept {
  for (const RankState& state : ranks_) {
    for (CudaValue& number : state.numbers) std::atomic_ref(number).store(value);
  }
}

void CopyChannels::post(RankId rank, std::span<const StreamTransfer> group) {
  RankState& state = ranks_[rank.index()];
  // All receives are announced before anything waits: no member of a group waits behind another one.
  for (const StreamTransfer& end : group) announce(state, end);
  if (group.size() == 1) return complete(state, group[0].transfer, group[0].stream);
  for (const StreamTransfer& end : group) {
    const Lane& lane = lane_of(end.transfer);
    if (!lane.stream) continue;
    state.device->record(state.fork.get(), end.stream);
    state.device->wait(lane.stream.get(), state.fork.get());
  }
  for (const StreamTransfer& end : group) {
    const Lane& lane = lane_of(end.transfer);
    complete(state, end.transfer, lane.stream ? lane.stream.get() : end.stream);
  }
  for (const StreamTransfer& end : group) {
    const Lane& lane = lane_of(end.transfer);
    if (!lane.stream) continue;
    state.device->record(lane.done.get(), lane.stream.get());
    state.device->wait(end.stream, lane.done.get());
  }
}

const CopyChannels::Lane& CopyChannels::lane_of(const Transfer& transfer) const {
  const State& channel = channels_.at(transfer.channel);
  return transfer.direction == Direction::send ? channel.sends : channel.receives;
}

void CopyChannels::announce(const RankState& state, const StreamTransfer& end) {
  if (end.transfer.direction != Direction::receive) return;
  State& channel = channels_.at(end.transfer.channel);
  write(end.stream, state.device->rank(), channel.ready, ++channel.received);
}

/// Requires: for a RECV, that it is the last one announced of its channel but for those behind it in its
/// group, whose numbers are larger: waiting for the larger one is enough.
void CopyChannels::complete(const RankState& state, const Transfer& transfer, GpuStream stream) {
  State& channel = channels_.at(transfer.channel);
  const RankId rank = state.device->rank();
  if (transfer.direction == Direction::receive) return wait(stream, rank, channel.done, channel.received);
  const CudaValue number = ++channel.sent;
  wait(stream, rank, channel.ready, number);
  const std::vector<Payload>& receives = memory_.receives.at(transfer.channel);
  if (number > receives.size()) return;  // no RECV meets it: it waits until the run is aborted
  move(state, transfer.payload, receives[number - 1], stream);
  write(stream, rank, channel.done, number);
}

void CopyChannels::write(GpuStream stream, RankId rank, CudaAddress number, CudaValue value) const {
  const RankDevice& device = *ranks_[rank.index()].device;
  device.check(device.cuda().stream_write_value(stream, number, value, 0), "announcing what is there");
}

void CopyChannels::wait(GpuStream stream, RankId rank, CudaAddress number, CudaValue value) const {
  const RankDevice& device = *ranks_[rank.index()].device;
  device.check(device.cuda().stream_wait_value(stream, number, value, kCudaWaitValueGeq),
               "waiting for another rank");
}

void CopyChannels::post(const StreamCollective& call) {
  const auto at = members_.find({call.communicator, call.rank});
  if (at == members_.end()) return;  // alone
  const CudaValue nth = ++at->second.calls;
  call.rank == program_.communicator(call.communicator).members.front() ? sum(call, nth)
                                                                        : join_sum(call, nth);
}

/// The memory of a member's call; null where it has no such call, and whoever needs it waits until the run is
/// aborted.
const std::span<std::byte>* CopyChannels::summand(const MemberKey& member, CudaValue nth) const {
  const auto at = memory_.sums.find(member);
  return at == memory_.sums.end() || nth > at->second.size() ? nullptr : &at->second[nth - 1];
}

void CopyChannels::sum(const StreamCollective& call, CudaValue nth) {
  const auto& members = program_.communicator(call.communicator).members;
  for (const RankId rank : std::span(members).subspan(1)) {
    const std::span<std::byte>* const from = summand({call.communicator, rank}, nth);
    if (from == nullptr) {
      // A separate number that stays as it is.
      const CudaAddress own = members_.at({call.communicator, call.rank}).number;
      return wait(call.stream, call.rank, own, nth);
    }
    if (from->size() != call.payload.size())
      throw BackendError(ErrorCode::ill_formed, "the members of a sum differ in size");
    wait(call.stream, call.rank, members_.at({call.communicator, rank}).number, 2 * nth - 1);
    call.add(call.stream, call.payload, *from);
  }
  write(call.stream, call.rank, members_.at({call.communicator, call.rank}).number, nth);
  for (const RankId rank : std::span(members).subspan(1))
    wait(call.stream, call.rank, members_.at({call.communicator, rank}).number, 2 * nth);
}

void CopyChannels::join_sum(const StreamCollective& call, CudaValue nth) {
  const MemberKey lowest{call.communicator, program_.communicator(call.communicator).members.front()};
  const CudaAddress own = members_.at({call.communicator, call.rank}).number;
  const std::span<std::byte>* const total = summand(lowest, nth);
  write(call.stream, call.rank, own, 2 * nth - 1);
  if (total == nullptr) return wait(call.stream, call.rank, own, 2 * nth);
  wait(call.stream, call.rank, members_.at(lowest).number, nth);
  ranks_[call.rank.index()].device->copy(call.stream, call.payload, *total);
  write(call.stream, call.rank, own, 2 * nth);
}

void CopyChannels::move(const RankState& state, const Payload& from, const Payload& to,
                        GpuStream stream) const {
  for (std::size_t p = 0; p < from.size(); ++p) state.device->copy(stream, to[p], from[p]);
}

void CopyChannels::release() noexcept { set_numbers(kReleased); }

SharedMemory find_shared_memory(const Program& program, const std::vector<StreamPlan>& plans,
                                const std::deque<RankActions>& actions,
                                const std::deque<GpuCollectives>& collectives) {
  SharedMemory shared;
  for (std::size_t r = 0; r < plans.size(); ++r) {
    for (const StreamStep& step : plans[r].steps) {
      const OpKind kind = program.actions(step.id).front().kind;
      if (is_collective(kind)) {
        const CommunicatorId communicator = program.communicators_of(step.id).front();
        shared.sums[{communicator, program.rank_of(step.id)}].push_back(collectives[r].summed(step.id));
      }
      if (!is_transfer(kind)) continue;
      for (const Transfer& end : actions[r].transfers(step.id)) {
        std::vector<Payload>& receives = shared.receives[end.channel];
        if (end.direction == Direction::receive) receives.push_back(end.payload);
      }
    }
  }
  return shared;
}

}  // namespace ppsim::gpu_backend
