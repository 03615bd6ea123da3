#include "copy_channels.hpp"

#include <algorithm>

#include "ppsim/core/text.hpp"
#include "ppsim/gpu_backend/device.hpp"

namespace ppsim {
namespace {

/// Above every number that a step reaches, and as bytes all alike.
constexpr std::byte kReleased{0x7F};

/// Largest group on one stream of each rank.
std::vector<std::size_t> largest_groups(const Program& program) {
  std::vector<std::size_t> largest(static_cast<std::size_t>(program.pipeline().ranks()), 1);
  for (std::int32_t i = 0; i < static_cast<std::int32_t>(program.size()); ++i) {
    const InstructionId id(i);
    if (!is_transfer(program.actions(id).front().kind)) continue;
    std::size_t& most = largest[program.rank_of(id).index()];
    most = std::max(most, program.actions(id).size());
  }
  return largest;
}

}  // namespace

Expected<void> CopyChannels::check(const Program& program) {
  for (std::int32_t i = 0; i < static_cast<std::int32_t>(program.size()); ++i) {
    const InstructionId id(i);
    if (!is_collective(program.actions(id).front().kind)) continue;
    if (program.communicator(program.communicators_of(id).front()).members.size() < 2) continue;
    return make_error(ErrorCode::bad_argument,
                      "rank " + std::to_string(program.rank_of(id).value()) + ": " +
                          actions_text(program, id) +
                          " is a collective of several ranks, which the copy transport does not have",
                      {.found = "--transport copy", .expected = "--transport nccl"});
  }
  return {};
}

CopyChannels::CopyChannels(const GpuApi& api, const Program& program, const std::vector<RankDevice*>& ranks,
                           const Destinations& destinations)
    : api_(api), destinations_(destinations) {
  const std::vector<std::size_t> groups = largest_groups(program);
  for (RankDevice* const rank : ranks) {
    RankState& state = ranks_.emplace_back();
    state.device = rank;
    state.rescue = rank->make_stream();
    open_lanes(state, groups[rank->rank().index()]);
    for (RankDevice* const other : ranks) rank->device().enable_peer(other->device());
  }
  std::vector<std::size_t> used(ranks_.size(), 0);
  for (const auto& [channel, payloads] : destinations_) used[channel.destination.index()] += 2;
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    ranks_[r].numbers = ranks_[r].device->allocate(static_cast<Bytes>(used[r] * sizeof(CudaValue)),
                                                   "the numbers of its channels");
  }
  for (const auto& [channel, payloads] : destinations_) {
    const std::span<std::byte> numbers = ranks_[channel.destination.index()].numbers;
    std::size_t& rest = used[channel.destination.index()];
    channels_[channel] = {address_of(numbers.data() + --rest * sizeof(CudaValue)),
                          address_of(numbers.data() + --rest * sizeof(CudaValue))};
  }
}

void CopyChannels::open_lanes(RankState& state, std::size_t count) const {
  state.fork = state.device->make_event(false);
  if (count < 2) return;
  for (std::size_t i = 0; i < count; ++i) {
    state.lanes.push_back({state.device->make_stream(), state.device->make_event(false)});
  }
}

void CopyChannels::begin_step() {
  for (auto& [channel, state] : channels_) state.sent = state.received = 0;
  for (RankState& state : ranks_) {
    state.device->make_current();
    state.device->fill(state.rescue.get(), state.numbers, std::byte{0});
  }
  for (RankState& state : ranks_) {
    int result = kCudaNotReady;
    while ((result = state.device->cuda().stream_query(state.rescue.get())) == kCudaNotReady) {
      api_.clock.pause();
    }
    state.device->check(result, "clearing the numbers of its channels");
  }
}

void CopyChannels::post(RankId rank, std::span<const StreamTransfer> group) {
  RankState& state = ranks_[rank.index()];
  // All receives are announced before anything waits: no member of a group stands behind another one.
  for (const StreamTransfer& end : group) announce(state, end);
  if (group.size() == 1) return complete(state, group[0].transfer, group[0].stream);
  std::map<Channel, std::size_t> lane_of;
  for (const StreamTransfer& end : group) {
    const auto [at, added] = lane_of.try_emplace(end.transfer.channel, lane_of.size());
    const Lane& lane = state.lanes[at->second];
    if (added) {
      state.device->record(state.fork.get(), end.stream);
      state.device->wait(lane.stream.get(), state.fork.get());
    }
    complete(state, end.transfer, lane.stream.get());
  }
  for (const StreamTransfer& end : group) {
    const Lane& lane = state.lanes[lane_of.at(end.transfer.channel)];
    state.device->record(lane.done.get(), lane.stream.get());
    state.device->wait(end.stream, lane.done.get());
  }
}

void CopyChannels::announce(const RankState& state, const StreamTransfer& end) {
  if (end.transfer.direction != Direction::receive) return;
  State& channel = channels_.at(end.transfer.channel);
  state.device->check(
      state.device->cuda().stream_write_value(end.stream, channel.ready, ++channel.received, 0),
      "announcing a RECV");
}

/// Requires: for a RECV, that it is the last one announced of its channel but for those behind it in its
/// group, whose numbers are larger: waiting for the larger one is enough.
void CopyChannels::complete(const RankState& state, const Transfer& transfer, GpuStream stream) {
  State& channel = channels_.at(transfer.channel);
  const CudaTable& cuda = state.device->cuda();
  if (transfer.direction == Direction::receive) {
    return state.device->check(
        cuda.stream_wait_value(stream, channel.done, channel.received, kCudaWaitValueGeq),
        "waiting for a message");
  }
  const CudaValue number = ++channel.sent;
  state.device->check(cuda.stream_wait_value(stream, channel.ready, number, kCudaWaitValueGeq),
                      "waiting for a RECV");
  const std::vector<Payload>& receives = destinations_.at(transfer.channel);
  if (number > receives.size()) return;  // no RECV meets it: it waits until the run is aborted
  move(state, transfer.payload, receives[number - 1], stream);
  state.device->check(cuda.stream_write_value(stream, channel.done, number, 0), "announcing a message");
}

void CopyChannels::move(const RankState& state, const Payload& from, const Payload& to,
                        GpuStream stream) const {
  for (std::size_t p = 0; p < from.size(); ++p) state.device->copy(stream, to[p], from[p]);
}

void CopyChannels::abort() noexcept {
  for (RankState& state : ranks_) {
    try {
      state.device->make_current();
      state.device->fill(state.rescue.get(), state.numbers, kReleased);
    } catch (const BackendError&) {
      // A device that takes no more work has nothing left that waits.
    }
  }
}

}  // namespace ppsim
