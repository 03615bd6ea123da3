#include "ppsim/core/execution/wait_analysis.hpp"

#include <algorithm>
#include <utility>

#include "ppsim/core/ir/check.hpp"

namespace ppsim {
namespace {

/// Adds a wait unless one for the same thing is among those from `first` on.
void add(std::vector<InstructionWait>& waits, std::size_t first, const InstructionWait& wait) {
  const auto same = [&](const InstructionWait& w) {
    return w.waits_for == wait.waits_for && w.message == wait.message;
  };
  const auto begin = waits.begin() + static_cast<std::ptrdiff_t>(first);
  if (std::none_of(begin, waits.end(), same)) waits.push_back(wait);
}

}  // namespace

RunState state_after(const RunOrder& order, std::size_t instructions) {
  RunState state{std::vector<char>(instructions, 0), std::vector<char>(instructions, 0)};
  for (const std::uint32_t item : order.items) (item % 2 == 0 ? state.started : state.complete)[item / 2] = 1;
  return state;
}

WaitAnalysis::WaitAnalysis(const Program& program, const ExecutionGraph& graph, RunState state)
    : program_(program),
      graph_(graph),
      state_(std::move(state)),
      out_(graph.messages.size(), 0),
      received_(graph.messages.size(), 0) {
  // Earlier messages of a channel have lower indexes, so one pass settles them all.
  for (std::size_t m = 0; m < graph.messages.size(); ++m) settle(m);
}

void WaitAnalysis::settle(std::size_t message) {
  const Message& m = graph_.messages[message];
  const bool met = has_started(m.receive);
  const bool may_go = is_out(m.previous) && is_received(m.credit) && (met || !rendezvous());
  out_[message] = has_started(m.send) && may_go ? 1 : 0;
  received_[message] = out_[message] != 0 && met ? 1 : 0;
}

bool WaitAnalysis::is_out(std::int32_t message) const { return message < 0 || out_[as_size(message)] != 0; }

bool WaitAnalysis::is_received(std::int32_t message) const {
  return message < 0 || received_[as_size(message)] != 0;
}

/// Whether the end of the message that belongs to `id` is over.
bool WaitAnalysis::is_done(InstructionId id, std::uint32_t message) const {
  return (graph_.messages[message].send == id ? out_ : received_)[message] != 0;
}

bool WaitAnalysis::can_move() const {
  std::vector<InstructionWait> waits;
  for (std::size_t i = 0; i < size(); ++i) {
    const InstructionId id(static_cast<std::int32_t>(i));
    if (complete(id)) continue;
    waits.clear();
    this->waits(id, waits);
    if (waits.empty() || waits.front().reason == WaitReason::running) return true;
  }
  return false;
}

std::vector<InstructionId> WaitAnalysis::holders(RankId rank) const {
  std::vector<InstructionId> result;
  for (const InstructionId id : program_.ids_of(rank)) {
    if (running(id) && is_communication(program_.actions(id).front().kind)) result.push_back(id);
  }
  return result;
}

std::vector<InstructionWait> WaitAnalysis::waits_of(InstructionId id) const {
  std::vector<InstructionWait> result;
  waits(id, result);
  return result;
}

void WaitAnalysis::waits(InstructionId id, std::vector<InstructionWait>& out) const {
  if (!started(id)) return waits_to_start(id, out);
  const bool meets = graph_.match_of[id.index()] >= 0;
  if (graph_.messages_of(id).empty() && !meets) out.push_back({id, id, WaitReason::running});
  waits_for_messages(id, out);
  if (meets) waits_for_members(id, out);
}

void WaitAnalysis::waits_to_start(InstructionId id, std::vector<InstructionWait>& out) const {
  const std::size_t first = out.size();
  const auto before = graph_.predecessors_of(id);
  for (std::size_t i = 0; i < before.size(); ++i) {
    if (!complete(before[i])) out.push_back({id, before[i], graph_.reasons_of(id)[i]});
  }
  if (graph_.waits_forever(id)) out.push_back({id, InstructionId(), WaitReason::unsatisfiable});
  if (out.size() == first) waits_for_place(id, out);
}

void WaitAnalysis::waits_for_place(InstructionId id, std::vector<InstructionWait>& out) const {
  const std::optional<int> places = graph_.capabilities.residency;
  if (!places || !is_communication(program_.actions(id).front().kind)) return;
  const std::vector<InstructionId> taken = holders(program_.rank_of(id));
  if (taken.size() < as_size(*places)) return;
  for (const InstructionId holder : taken) out.push_back({id, holder, WaitReason::place});
}

void WaitAnalysis::waits_for_messages(InstructionId id, std::vector<InstructionWait>& out) const {
  const std::size_t first = out.size();
  for (const std::uint32_t message : graph_.messages_of(id)) {
    if (is_done(id, message)) continue;
    const Blocker b = rendezvous() ? blocker_of_transfer(message) : blocker_of(message);
    const Message& m = graph_.messages[b.message];
    const InstructionWait absent{id, InstructionId(), WaitReason::counterpart,
                                 static_cast<std::int32_t>(b.message)};
    if (b.lacks_send) add(out, first, m.send.valid() ? InstructionWait{id, m.send, b.reason} : absent);
    if (b.lacks_receive)
      add(out, first, m.receive.valid() ? InstructionWait{id, m.receive, b.reason} : absent);
  }
}

/// Where both ends have started, what an earlier message of the channel lacks.
WaitAnalysis::Blocker WaitAnalysis::blocker_of_transfer(std::uint32_t message) const {
  while (true) {
    const Message& m = graph_.messages[message];
    const Blocker blocker{message, !has_started(m.send), !has_started(m.receive), WaitReason::rendezvous};
    if (blocker.lacks_send || blocker.lacks_receive) return blocker;
    PPSIM_CHECK(!is_out(m.previous), "a transfer that nothing keeps back");
    message = static_cast<std::uint32_t>(m.previous);
  }
}

/// With credits: follows a message that is not out to the one before it, or to the one whose receipt frees
/// its credit, as far as it goes.
WaitAnalysis::Blocker WaitAnalysis::blocker_of(std::uint32_t message) const {
  WaitReason reason = WaitReason::unsent;
  while (true) {
    const Message& m = graph_.messages[message];
    if (!has_started(m.send)) return {message, true, false, reason};
    if (!is_out(m.previous)) {
      message = static_cast<std::uint32_t>(m.previous);
      continue;
    }
    PPSIM_CHECK(!is_received(m.credit), "a message that nothing keeps back");
    message = static_cast<std::uint32_t>(m.credit);
    reason = WaitReason::credit;
    if (!has_started(graph_.messages[message].receive)) return {message, false, true, reason};
  }
}

void WaitAnalysis::waits_for_members(InstructionId id, std::vector<InstructionWait>& out) const {
  const CollectiveMatch& match = graph_.matches[as_size(graph_.match_of[id.index()])];
  for (const InstructionId member : graph_.members_of(match)) {
    if (!started(member)) out.push_back({id, member, WaitReason::collective});
  }
  if (!match.complete) out.push_back({id, InstructionId(), WaitReason::member});
}

}  // namespace ppsim
