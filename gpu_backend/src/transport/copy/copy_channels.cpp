#include "copy_channels.hpp"

#include <algorithm>

#include "ppsim/gpu_backend/executor/backend_error.hpp"

namespace ppsim::gpu_backend {
namespace {

/// The channel of a SEND in an instruction.
Channel channel_of(const Program& program, InstructionId id, std::size_t member) {
  return {program.communicators_of(id)[member], program.rank_of(id),
          peer_rank(program.pipeline(), program.actions(id)[member])};
}

/// Whether another member of the group comes before a SEND on its queue that is not of its channel.
bool follows_another(const Program& program, InstructionId id, std::size_t member) {
  const auto actions = program.actions(id);
  const auto queue = [&](std::size_t i) {
    return program.queue_of(actions[i], program.communicators_of(id)[i]);
  };
  std::size_t first = 0;
  while (queue(first) != queue(member)) ++first;
  return !is_send(actions[first].kind) || channel_of(program, id, first) != channel_of(program, id, member);
}

}  // namespace

CopyChannels::CopyChannels(const Program& program, const ExecutionGraph& graph,
                           const std::vector<RankDevice*>& ranks)
    : program_(program),
      graph_(graph),
      ranks_(ranks),
      messages_(graph.messages.size()),
      sums_(graph.meetings.size()) {
  for (RankDevice* const rank : ranks) {
    forks_.push_back(rank->make_event(false));
    for (RankDevice* const other : ranks) rank->device().enable_peer(other->device());
  }
  open_messages();
  open_sums();
  open_lanes();
}

void CopyChannels::open_messages() {
  for (std::size_t m = 0; m < messages_.size(); ++m) {
    const Message& message = graph_.messages[m];
    if (message.receive.valid())
      messages_[m].ready = device_of(program_.rank_of(message.receive)).make_event(false);
    if (message.send.valid()) messages_[m].done = device_of(program_.rank_of(message.send)).make_event(false);
  }
}

void CopyChannels::open_sums() {
  for (std::size_t i = 0; i < sums_.size(); ++i) {
    const auto& members = program_.communicator(graph_.meetings[i].communicator).members;
    for (const RankId rank : members) sums_[i].there.push_back(device_of(rank).make_event(false));
    sums_[i].calls.resize(members.size());
    sums_[i].done = device_of(members.front()).make_event(false);
  }
}

void CopyChannels::open_lanes() {
  for (InstructionId id(0); id.index() < program_.size(); id = next(id)) {
    const auto actions = program_.actions(id);
    if (!is_transfer(actions.front().kind)) continue;
    for (std::size_t member = 0; member < actions.size(); ++member) {
      if (!is_send(actions[member].kind) || !follows_another(program_, id, member)) continue;
      StreamHandle& lane = lanes_[channel_of(program_, id, member)];
      if (!lane) lane = device_of(program_.rank_of(id)).make_stream(StreamPriority::highest);
    }
  }
}

void CopyChannels::begin_step() {
  for (Meeting& message : messages_) message.received = message.moved = false;
  for (Sum& sum : sums_) {
    sum.begun = 0;
    sum.made = false;
  }
}

std::uint32_t CopyChannels::message_of(const StreamTransfer& end) const {
  return graph_.messages_of(end.transfer.instruction)[end.transfer.member];
}

/// The stream that a SEND copies on.
GpuStream CopyChannels::lane_of(const StreamTransfer& end) const {
  if (!follows_another(program_, end.transfer.instruction, end.transfer.member)) return end.stream;
  return lanes_.at(end.transfer.channel).get();
}

void CopyChannels::post(RankId rank, std::span<const StreamTransfer> group) {
  const RankDevice& device = device_of(rank);
  for (const StreamTransfer& end : group) {
    Meeting& message = messages_[message_of(end)];
    if (end.transfer.direction == Direction::receive) {
      message.receive = end;
      device.record(message.ready.get(), end.stream);
      message.received = true;
      continue;
    }
    message.send = end;
    message.send.stream = lane_of(end);
    message.send_queue = end.stream;
    if (message.send.stream == end.stream) continue;
    device.record(forks_[rank.index()].get(), end.stream);
    device.wait(message.send.stream, forks_[rank.index()].get());
  }
}

void CopyChannels::move(std::size_t number) {
  Meeting& message = messages_[number];
  const RankDevice& device = device_of(message.send.transfer.channel.source);
  const GpuStream stream = message.send.stream;
  const Payload& from = message.send.transfer.payload;
  const Payload& to = message.receive.transfer.payload;
  device.wait(stream, message.ready.get());
  for (std::size_t p = 0; p < from.size(); ++p) device.copy(stream, to[p], from[p]);
  device.record(message.done.get(), stream);
  message.moved = true;
}

void CopyChannels::post(const StreamCollective& call) {
  Sum& sum = sums_[static_cast<std::size_t>(graph_.meeting_of[call.instruction.index()])];
  const auto& members = program_.communicator(call.communicator).members;
  const auto at = static_cast<std::size_t>(std::ranges::find(members, call.rank) - members.begin());
  sum.calls[at] = call;
  device_of(call.rank).record(sum.there[at].get(), call.stream);
  ++sum.begun;
}

bool CopyChannels::may_sum(std::size_t collective) const {
  return sums_[collective].begun == sums_[collective].calls.size();
}

void CopyChannels::sum(std::size_t collective) {
  Sum& sum = sums_[collective];
  const StreamCollective& own = sum.calls.front();
  const RankDevice& device = device_of(own.rank);
  for (std::size_t i = 1; i < sum.calls.size(); ++i) {
    const StreamCollective& other = sum.calls[i];
    if (other.payload.size() != own.payload.size())
      throw BackendError(ErrorCode::ill_formed, "the members of a sum differ in size");
    device.wait(own.stream, sum.there[i].get());
    own.add(own.stream, own.payload, other.payload);
  }
  for (std::size_t i = 1; i < sum.calls.size(); ++i)
    device.copy(own.stream, sum.calls[i].payload, own.payload);
  device.record(sum.done.get(), own.stream);
  sum.made = true;
}

bool CopyChannels::may_end(InstructionId id) const {
  const std::int32_t meeting = graph_.meeting_of[id.index()];
  if (meeting >= 0) return sums_[static_cast<std::size_t>(meeting)].made;
  const auto messages = graph_.messages_of(id);
  return std::ranges::all_of(messages, [&](std::uint32_t m) { return messages_[m].moved.load(); });
}

void CopyChannels::end(InstructionId id) {
  const RankDevice& device = device_of(program_.rank_of(id));
  const std::int32_t meeting = graph_.meeting_of[id.index()];
  if (meeting >= 0) {
    const Sum& sum = sums_[static_cast<std::size_t>(meeting)];
    const auto call = std::ranges::find(sum.calls, id, &StreamCollective::instruction);
    if (call != sum.calls.begin()) device.wait(call->stream, sum.done.get());
  }
  for (const std::uint32_t m : graph_.messages_of(id)) {
    const Meeting& message = messages_[m];
    const GpuStream queue = graph_.messages[m].receive == id ? message.receive.stream : message.send_queue;
    if (queue != message.send.stream) device.wait(queue, message.done.get());
  }
}

bool CopyChannels::stopped() const {
  return std::ranges::none_of(lanes_, [&](const auto& lane) {
    return ranks_.front()->cuda().stream_query(lane.second.get()) == kCudaNotReady;
  });
}

}  // namespace ppsim::gpu_backend
