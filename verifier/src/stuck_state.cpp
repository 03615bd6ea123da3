#include "stuck_state.hpp"

#include <algorithm>
#include <utility>

#include "ppsim/core/check.hpp"

namespace ppsim {
namespace {

WaitCause cause_of(WaitReason reason) {
  switch (reason) {
    case WaitReason::data:
      return WaitCause::data;
    case WaitReason::queue:
      return WaitCause::queue;
    case WaitReason::after:
      return WaitCause::after;
    case WaitReason::host:
      return WaitCause::host;
  }
  PPSIM_CHECK(false, "unknown wait reason");
}

}  // namespace

namespace {

/// Which instructions have started, or completed, in the order.
std::vector<char> happened(const ExecutionGraph& graph, const RunOrder& order, std::uint32_t half) {
  std::vector<char> result(graph.size(), 0);
  for (const std::uint32_t item : order.items) {
    if (item % 2 == half) result[item / 2] = 1;
  }
  return result;
}

}  // namespace

StuckState::StuckState(const ExecutionGraph& graph, const RunOrder& order)
    : StuckState(graph, happened(graph, order, 0), happened(graph, order, 1)) {}

StuckState::StuckState(const ExecutionGraph& graph, std::vector<char> started, std::vector<char> complete)
    : graph_(graph),
      started_(std::move(started)),
      complete_(std::move(complete)),
      out_(graph.messages.size()),
      received_(graph.messages.size()) {
  // Earlier messages of a channel have lower indexes, so one pass settles them all.
  for (std::size_t k = 0; k < graph.messages.size(); ++k) {
    const Message& m = graph.messages[k];
    const bool in_turn = m.previous < 0 || out_[static_cast<std::size_t>(m.previous)] != 0;
    const bool credited = m.credit < 0 || received_[static_cast<std::size_t>(m.credit)] != 0;
    out_[k] = has_started(m.send) && in_turn && credited && (!rendezvous() || has_started(m.receive));
    received_[k] = out_[k] != 0 && has_started(m.receive);
  }
}

bool StuckState::done_for(InstructionId id, std::uint32_t message) const {
  return (graph_.messages[message].send == id ? out_ : received_)[message] != 0;
}

StuckState::Blocker StuckState::blocker_of(InstructionId id, std::uint32_t message) const {
  if (rendezvous()) return blocker_of_transfer(message);
  return graph_.messages[message].send == id ? blocker_of_departure(message) : blocker_of_receipt(message);
}

StuckState::Blocker StuckState::blocker_of_transfer(std::uint32_t message) const {
  const Message& m = graph_.messages[message];
  const bool send = has_started(m.send);
  const bool receive = has_started(m.receive);
  if (send && receive) return blocker_of_transfer(static_cast<std::uint32_t>(m.previous));
  return {message, !send, !receive, false};
}

StuckState::Blocker StuckState::blocker_of_departure(std::uint32_t message) const {
  const Message& m = graph_.messages[message];
  if (!has_started(m.send)) return {message, true, false, false};
  if (m.previous >= 0 && out_[static_cast<std::size_t>(m.previous)] == 0) {
    return blocker_of_departure(static_cast<std::uint32_t>(m.previous));
  }
  Blocker blocker = blocker_of_receipt(static_cast<std::uint32_t>(m.credit));
  blocker.by_credit = true;
  return blocker;
}

StuckState::Blocker StuckState::blocker_of_receipt(std::uint32_t message) const {
  if (!has_started(graph_.messages[message].receive)) return {message, false, true, false};
  return blocker_of_departure(message);
}

void StuckState::waits(InstructionId id, std::vector<StuckWait>& out) const {
  if (!started(id)) {
    const auto predecessors = graph_.predecessors_of(id);
    for (std::size_t i = 0; i < predecessors.size(); ++i) {
      if (!complete(predecessors[i])) out.push_back({predecessors[i], cause_of(graph_.reasons_of(id)[i])});
    }
    return;
  }
  for (const std::uint32_t message : graph_.messages_of(id)) {
    if (done_for(id, message)) continue;
    const Blocker b = blocker_of(id, message);
    const Message& m = graph_.messages[b.message];
    const WaitCause cause = b.by_credit    ? WaitCause::credit
                            : rendezvous() ? WaitCause::rendezvous
                                           : WaitCause::unsent;
    if (b.lacks_send && m.send.valid()) out.push_back({m.send, cause});
    if (b.lacks_receive && m.receive.valid()) out.push_back({m.receive, cause});
  }
  const std::int32_t meeting = graph_.meeting_of[id.index()];
  if (meeting < 0) return;
  for (const InstructionId member : graph_.members_of(graph_.meetings[static_cast<std::size_t>(meeting)])) {
    if (member.valid() && !started(member)) out.push_back({member, WaitCause::collective});
  }
}

void StuckState::orphans(InstructionId id, std::vector<std::uint32_t>& out) const {
  for (const std::uint32_t message : graph_.messages_of(id)) {
    if (done_for(id, message)) continue;
    const Blocker b = blocker_of(id, message);
    const Message& m = graph_.messages[b.message];
    if ((b.lacks_send && !m.send.valid()) || (b.lacks_receive && !m.receive.valid()))
      out.push_back(b.message);
  }
}

}  // namespace ppsim
