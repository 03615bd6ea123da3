#include "copy_channels.hpp"

#include <algorithm>
#include <chrono>
#include <thread>

#include "ppsim/gpu_backend/executor/backend_error.hpp"

namespace ppsim::gpu_backend {
namespace {

/// The channel of a SEND or RECV in an instruction.
Channel channel_of(const Program& program, InstructionId id, std::size_t member) {
  const Action& action = program.actions(id)[member];
  const RankId own = program.rank_of(id);
  const RankId peer = peer_rank(program.pipeline(), action);
  const CommunicatorId communicator = program.communicators_of(id)[member];
  return is_send(action.kind) ? Channel{communicator, own, peer} : Channel{communicator, peer, own};
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

CopyChannels::CopyChannels(CopySetup setup)
    : in_(std::move(setup)),
      first_(in_.ranks.front()->rank()),
      messages_(in_.graph.messages.size()),
      sums_(in_.graph.matches.size()) {
  for (RankDevice* const rank : in_.ranks) {
    forks_.push_back(rank->make_event(false));
    for (RankDevice* const other : in_.ranks) rank->device().enable_peer(other->device());
  }
  open_lines();
  open_circles();
  std::size_t flags = 2 * messages_.size();
  for (Sum& sum : sums_) {
    sum.flags = flags;
    flags += sum.calls.size() + 1;
  }
  first_of_processes_ = flags;
  flags_.emplace(flags + as_size(in_.peers.processes()), in_.peers);
}

void CopyChannels::lend_and_borrow() {
  if (in_.peers.alone()) return;
  lend();
  loans_.exchange(in_.peers);
  borrow();
}

void CopyChannels::give_back() noexcept {
  loans_.give_back();
  flags_->set(gave_back(in_.peers.process()), 1);
}

/// Nobody frees what another process still has open, after a failure either. The driver closes what a process
/// had open that is gone: whoever knows that it is gone marks it for all.
void CopyChannels::part() noexcept {
  if (in_.peers.alone()) return;
  give_back();
  // Longer than another one takes to hear of a failure and to stop its devices.
  constexpr std::chrono::seconds kMaxParting{20};
  const auto end = std::chrono::steady_clock::now() + kMaxParting;
  const auto all_gave_back = [&] {
    for (int process = 0; process < in_.peers.processes(); ++process) {
      if (!flags_->reached(gave_back(process), 1)) return false;
    }
    return true;
  };
  while (!all_gave_back() && std::chrono::steady_clock::now() < end) {
    for (const int process : in_.peers.gone()) flags_->set(gave_back(process), 1);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

bool CopyChannels::is_here(RankId rank) const {
  const auto number = as_size(rank.value() - first_.value());
  return rank >= first_ && number < in_.ranks.size();
}

/// Requires: a rank of this process.
const RankDevice& CopyChannels::device_of(RankId rank) const {
  return *in_.ranks[as_size(rank.value() - first_.value())];
}

CopyChannels::SharedEvent CopyChannels::make_event(RankId rank, bool lent) const {
  const RankDevice& device = device_of(rank);
  SharedEvent made{.own = lent ? device.make_shared_event() : device.make_event(false)};
  made.event = made.own.get();
  return made;
}

void CopyChannels::open_lines() {
  for (InstructionId id(0); id.index() < in_.program.size(); id = next(id)) {
    if (!is_transfer(in_.program.actions(id).front().kind)) continue;
    for (std::size_t member = 0; member < in_.program.actions(id).size(); ++member) open_line(id, member);
  }
  std::uint32_t number = 0;
  for (auto& [channel, line] : lines_) {
    line.number = number++;
    if (is_here(channel.destination)) line.ready = make_event(channel.destination, !is_here(channel.source));
    if (is_here(channel.source)) line.done = make_event(channel.source, !is_here(channel.destination));
  }
}

void CopyChannels::open_line(InstructionId id, std::size_t member) {
  const Channel channel = channel_of(in_.program, id, member);
  Line& line = lines_[channel];
  messages_[in_.graph.messages_of(id)[member]].line = &line;
  if (!is_here(in_.program.rank_of(id)) || !is_send(in_.program.actions(id)[member].kind)) return;
  if (line.stream || !follows_another(in_.program, id, member)) return;
  line.stream = device_of(channel.source).make_stream(StreamPriority::highest);
}

const std::vector<RankId>& CopyChannels::members_of(std::size_t collective) const {
  return in_.program.communicator(in_.graph.matches[collective].communicator).members;
}

bool CopyChannels::is_abroad(const std::vector<RankId>& members) const {
  return !std::ranges::all_of(members, [&](RankId rank) { return is_here(rank); });
}

void CopyChannels::open_circles() {
  for (std::size_t i = 0; i < sums_.size(); ++i) {
    const auto& members = members_of(i);
    const auto [at, added] = circles_.try_emplace(in_.graph.matches[i].communicator);
    sums_[i].circle = &at->second;
    sums_[i].calls.resize(members.size());
    sums_[i].summands.resize(members.size());
    if (!added) continue;
    for (const RankId rank : members) {
      at->second.there.push_back(is_here(rank) ? make_event(rank, !is_here(members.front())) : SharedEvent{});
    }
    if (is_here(members.front())) at->second.done = make_event(members.front(), is_abroad(members));
  }
}

using Kind = LoanKey::Kind;

void CopyChannels::lend() {
  for (const auto& [channel, line] : lines_) lend_of(channel, line);
  lend_messages();
  lend_sums();
}

void CopyChannels::lend_of(const Channel& channel, const Line& line) {
  if (is_here(channel.source) == is_here(channel.destination)) return;
  if (line.ready.own)
    loans_.lend({Kind::ready, line.number}, device_of(channel.destination), line.ready.event);
  if (line.done.own) loans_.lend({Kind::done, line.number}, device_of(channel.source), line.done.event);
}

void CopyChannels::lend_messages() {
  for (std::uint32_t m = 0; m < messages_.size(); ++m) {
    const Message& message = in_.graph.messages[m];
    if (!message.complete() || is_here(in_.program.rank_of(message.send))) continue;
    const RankId receiver = in_.program.rank_of(message.receive);
    if (!is_here(receiver)) continue;
    const auto messages = in_.graph.messages_of(message.receive);
    const auto transfers = in_.transfers(message.receive);
    const auto member = as_size(std::ranges::find(messages, m) - messages.begin());
    if (member < transfers.size())
      loans_.lend({Kind::received, m}, device_of(receiver), transfers[member].payload);
  }
}

void CopyChannels::lend_sums() {
  for (const auto& [communicator, circle] : circles_) {
    const auto& members = in_.program.communicator(communicator).members;
    const auto number = static_cast<std::uint32_t>(communicator.value());
    for (std::uint32_t i = 1; i < members.size(); ++i) {
      if (!circle.there[i].own || is_here(members.front())) continue;
      loans_.lend({Kind::there, number, i}, device_of(members[i]), circle.there[i].event);
    }
    if (circle.done.own && is_abroad(members))
      loans_.lend({Kind::sum, number}, device_of(members.front()), circle.done.event);
  }
  for (std::uint32_t s = 0; s < sums_.size(); ++s) {
    const auto& members = members_of(s);
    if (is_here(members.front())) continue;
    for (const InstructionId id : in_.graph.members_of(in_.graph.matches[s])) {
      if (!id.valid() || !is_here(in_.program.rank_of(id))) continue;
      const RankId rank = in_.program.rank_of(id);
      const auto member = static_cast<std::uint32_t>(std::ranges::find(members, rank) - members.begin());
      loans_.lend({Kind::summand, s, member}, device_of(rank), Payload{in_.summed(id)});
    }
  }
}

void CopyChannels::borrow() {
  for (auto& [channel, line] : lines_) {
    if (is_here(channel.source) == is_here(channel.destination)) continue;
    if (is_here(channel.source)) {
      line.ready.event = loans_.borrow_event({Kind::ready, line.number}, device_of(channel.source));
    } else if (is_here(channel.destination)) {
      line.done.event = loans_.borrow_event({Kind::done, line.number}, device_of(channel.destination));
    }
  }
  for (std::uint32_t m = 0; m < messages_.size(); ++m) {
    const Message& message = in_.graph.messages[m];
    if (!message.complete() || is_here(in_.program.rank_of(message.receive))) continue;
    const RankId sender = in_.program.rank_of(message.send);
    if (is_here(sender)) messages_[m].to = loans_.borrow_memory({Kind::received, m}, device_of(sender));
  }
  borrow_sums();
}

void CopyChannels::borrow_sums() {
  for (auto& [communicator, circle] : circles_) {
    const auto& members = in_.program.communicator(communicator).members;
    const auto number = static_cast<std::uint32_t>(communicator.value());
    const auto here = std::ranges::find_if(members, [&](RankId rank) { return is_here(rank); });
    if (here == members.end() || !is_abroad(members)) continue;
    if (here != members.begin())
      circle.done.event = loans_.borrow_event({Kind::sum, number}, device_of(*here));
    for (std::uint32_t i = 1; i < members.size() && here == members.begin(); ++i) {
      if (!is_here(members[i]))
        circle.there[i].event = loans_.borrow_event({Kind::there, number, i}, device_of(members.front()));
    }
  }
  for (std::uint32_t s = 0; s < sums_.size(); ++s) {
    const auto& members = members_of(s);
    if (!is_here(members.front()) || !in_.graph.matches[s].complete) continue;
    for (std::uint32_t i = 1; i < members.size(); ++i) {
      if (is_here(members[i])) continue;
      sums_[s].summands[i] = loans_.borrow_memory({Kind::summand, s, i}, device_of(members.front())).front();
    }
  }
}

CopyChannels::MessageEnds& CopyChannels::ends_of(const StreamTransfer& end) {
  return messages_[in_.graph.messages_of(end.transfer.instruction)[end.transfer.member]];
}

/// The stream that a SEND copies on.
GpuStream CopyChannels::stream_of(const StreamTransfer& end) const {
  if (!follows_another(in_.program, end.transfer.instruction, end.transfer.member)) return end.stream;
  return lines_.at(end.transfer.channel).stream.get();
}

void CopyChannels::post(RankId rank, std::span<const StreamTransfer> group) {
  const RankDevice& device = device_of(rank);
  for (const StreamTransfer& end : group) {
    MessageEnds& message = ends_of(end);
    if (end.transfer.direction == Direction::receive) {
      message.to = end.transfer.payload;
      message.receive_queue = end.stream;
      device.record(message.line->ready.event, end.stream);
      set(received(as_size(&message - messages_.data())));
      continue;
    }
    message.send = end;
    message.send.stream = stream_of(end);
    message.send_queue = end.stream;
    if (message.send.stream == end.stream) continue;
    CUevent_st* const fork = forks_[as_size(rank.value() - first_.value())].get();
    device.record(fork, end.stream);
    device.wait(message.send.stream, fork);
  }
}

void CopyChannels::move(std::size_t number) {
  const MessageEnds& message = messages_[number];
  const RankDevice& device = device_of(message.send.transfer.channel.source);
  const GpuStream stream = message.send.stream;
  const Payload& from = message.send.transfer.payload;
  device.wait(stream, message.line->ready.event);
  for (std::size_t p = 0; p < from.size(); ++p) device.copy(stream, message.to[p], from[p]);
  device.record(message.line->done.event, stream);
  set(moved(number));
}

void CopyChannels::post(const StreamCollective& call) {
  const auto number = as_size(in_.graph.match_of[call.instruction.index()]);
  Sum& sum = sums_[number];
  const auto& members = members_of(number);
  const auto at = as_size(std::ranges::find(members, call.rank) - members.begin());
  sum.calls[at] = call;
  sum.summands[at] = call.payload;
  device_of(call.rank).record(sum.circle->there[at].event, call.stream);
  set(sum.flags + at);
}

bool CopyChannels::may_sum(std::size_t collective) const {
  const Sum& sum = sums_[collective];
  for (std::size_t i = 0; i < sum.calls.size(); ++i) {
    if (!is_set(sum.flags + i)) return false;
  }
  return true;
}

void CopyChannels::sum(std::size_t collective) {
  const Sum& sum = sums_[collective];
  const StreamCollective& own = sum.calls.front();
  const RankDevice& device = device_of(own.rank);
  for (std::size_t i = 1; i < sum.calls.size(); ++i) {
    if (sum.summands[i].size() != own.payload.size())
      throw BackendError(ErrorCode::ill_formed, "the members of a sum differ in size");
    device.wait(own.stream, sum.circle->there[i].event);
    own.add(own.stream, own.payload, sum.summands[i]);
  }
  for (std::size_t i = 1; i < sum.calls.size(); ++i) device.copy(own.stream, sum.summands[i], own.payload);
  device.record(sum.circle->done.event, own.stream);
  set(made(sum));
}

bool CopyChannels::may_end(InstructionId id) const {
  const std::int32_t match = in_.graph.match_of[id.index()];
  if (match >= 0) return is_set(made(sums_[as_size(match)]));
  const auto messages = in_.graph.messages_of(id);
  return std::ranges::all_of(messages, [&](std::uint32_t m) { return is_set(moved(m)); });
}

void CopyChannels::end(InstructionId id) {
  const RankDevice& device = device_of(in_.program.rank_of(id));
  const std::int32_t match = in_.graph.match_of[id.index()];
  if (match >= 0) {
    const Sum& sum = sums_[as_size(match)];
    const auto call = std::ranges::find(sum.calls, id, &StreamCollective::instruction);
    if (call != sum.calls.begin()) device.wait(call->stream, sum.circle->done.event);
  }
  for (const std::uint32_t m : in_.graph.messages_of(id)) {
    const MessageEnds& message = messages_[m];
    const GpuStream queue = in_.graph.messages[m].receive == id ? message.receive_queue : message.send_queue;
    if (queue != message.send.stream) device.wait(queue, message.line->done.event);
  }
}

bool CopyChannels::stopped() const {
  return std::ranges::none_of(lines_, [&](const auto& line) {
    const GpuStream stream = line.second.stream.get();
    return stream != nullptr && in_.ranks.front()->cuda().stream_query(stream) == kCudaNotReady;
  });
}

}  // namespace ppsim::gpu_backend
