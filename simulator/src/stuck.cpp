#include "ppsim/simulator/stuck.hpp"

#include <algorithm>
#include <sstream>

#include "ppsim/core/check.hpp"
#include "ppsim/core/text.hpp"

namespace ppsim {
namespace {

/// Reads a run that stopped: which messages got through, and what holds each incomplete instruction up.
class StallFinder {
 public:
  StallFinder(const ExecutionGraph& graph, const RunState& state)
      : graph_(graph), state_(state), out_(graph.messages.size(), 0), received_(graph.messages.size(), 0) {
    // Messages stand channel by channel, so what a message waits for is decided before it.
    for (std::size_t i = 0; i < graph.messages.size(); ++i) settle(i);
  }

  [[nodiscard]] Stall stall_of(InstructionId id) const {
    if (state_.started[id.index()] == 0) return before_start(id);
    if (const std::int32_t meeting = graph_.meeting_of[id.index()]; meeting >= 0) {
      return in_meeting(id, graph_.meetings[static_cast<std::size_t>(meeting)]);
    }
    for (const std::uint32_t index : graph_.messages_of(id)) {
      const bool done = graph_.messages[index].send == id ? out_[index] != 0 : received_[index] != 0;
      if (!done) return in_message(id, graph_.messages[index]);
    }
    PPSIM_CHECK(false, "an instruction whose work is done and that has not completed");
  }

 private:
  [[nodiscard]] bool started(InstructionId id) const { return id.valid() && state_.started[id.index()] != 0; }

  void settle(std::size_t index) {
    const Message& message = graph_.messages[index];
    const bool rendezvous = !graph_.capabilities.credits;
    const bool in_order = message.previous < 0 || out_[static_cast<std::size_t>(message.previous)] != 0;
    const bool has_credit = message.credit < 0 || received_[static_cast<std::size_t>(message.credit)] != 0;
    const bool met = started(message.receive);
    out_[index] = started(message.send) && in_order && has_credit && (met || !rendezvous) ? 1 : 0;
    received_[index] = out_[index] != 0 && met ? 1 : 0;
  }

  [[nodiscard]] Stall before_start(InstructionId id) const {
    const auto before = graph_.predecessors_of(id);
    for (std::size_t i = 0; i < before.size(); ++i) {
      if (state_.complete[before[i].index()] == 0)
        return {id, before[i], reason_of(graph_.reasons_of(id)[i])};
    }
    if (graph_.waits_forever(id)) return {id, InstructionId(), StallReason::unsatisfiable};
    return {id, InstructionId(), StallReason::place};
  }

  static StallReason reason_of(WaitReason reason) {
    switch (reason) {
      case WaitReason::data:
        return StallReason::data;
      case WaitReason::queue:
        return StallReason::queue;
      case WaitReason::after:
        return StallReason::after;
      case WaitReason::host:
        return StallReason::host;
    }
    PPSIM_CHECK(false, "unknown wait reason");
  }

  [[nodiscard]] Stall in_meeting(InstructionId id, const CollectiveMeeting& meeting) const {
    for (const InstructionId member : graph_.members_of(meeting)) {
      if (!started(member)) return {id, member, StallReason::member};
    }
    return {id, InstructionId(), StallReason::no_member};
  }

  [[nodiscard]] Stall in_message(InstructionId id, const Message& message) const {
    const InstructionId other = message.send == id ? message.receive : message.send;
    if (!other.valid()) return {id, other, StallReason::no_other_end};
    if (message.send == id && message.credit >= 0) {
      const auto credit = static_cast<std::size_t>(message.credit);
      if (received_[credit] == 0) return {id, graph_.messages[credit].receive, StallReason::credit};
    }
    return {id, other, StallReason::other_end};
  }

  const ExecutionGraph& graph_;
  const RunState& state_;
  std::vector<char> out_;
  std::vector<char> received_;
};

/// The communication of the rank that holds its last place.
InstructionId holder_of_place(const Program& program, const RunState& state, RankId rank) {
  InstructionId holder;
  for (InstructionId id = program.first(rank); id < program.last(rank); id = InstructionId(id.value() + 1)) {
    const bool open = state.started[id.index()] != 0 && state.complete[id.index()] == 0;
    if (open && is_communication(program.actions(id)[0].kind)) holder = id;
  }
  return holder;
}

Mismatch mismatch_of(const Program& program, std::span<const InstructionId> members) {
  const Action& first = program.actions(members.front())[0];
  const auto other = std::find_if(members.begin(), members.end(),
                                  [&](InstructionId id) { return program.actions(id)[0] != first; });
  PPSIM_CHECK(other != members.end(), "a mismatched meeting whose members agree");
  return {members.front(), *other};
}

const char* explanation(StallReason reason) {
  switch (reason) {
    case StallReason::data:
      return "needs its result";
    case StallReason::queue:
      return "stands behind it in a queue";
    case StallReason::after:
      return "is ordered after it";
    case StallReason::host:
      return "is issued after it, and it blocks the host";
    case StallReason::unsatisfiable:
      return "a dependency is not on the rank";
    case StallReason::other_end:
      return "the other end of the transfer";
    case StallReason::no_other_end:
      return "the other end of the transfer does not exist";
    case StallReason::credit:
      return "the channel is full until it receives";
    case StallReason::member:
      return "a member of the collective";
    case StallReason::no_member:
      return "a member takes no part in the collective";
    case StallReason::place:
      return "holds the last place for communication of the rank";
  }
  return "";
}

void write_instruction(std::ostream& out, const Program& program, InstructionId id) {
  out << "rank " << program.rank_of(id) << ": " << actions_text(program, id);
}

void write_stall(std::ostream& out, const Program& program, const Stall& stall) {
  write_instruction(out, program, stall.waiter);
  if (stall.waits_for.valid()) {
    out << " waits for ";
    write_instruction(out, program, stall.waits_for);
  } else {
    out << " waits forever";
  }
  out << " (" << explanation(stall.reason) << ")";
}

}  // namespace

std::string_view stall_reason_name(StallReason reason) {
  switch (reason) {
    case StallReason::data:
      return "data";
    case StallReason::queue:
      return "queue";
    case StallReason::after:
      return "after";
    case StallReason::host:
      return "host";
    case StallReason::unsatisfiable:
      return "unsatisfiable";
    case StallReason::other_end:
      return "other_end";
    case StallReason::no_other_end:
      return "no_other_end";
    case StallReason::credit:
      return "credit";
    case StallReason::member:
      return "member";
    case StallReason::no_member:
      return "no_member";
    case StallReason::place:
      return "place";
  }
  return "";
}

std::optional<Stuck> find_mismatches(const Program& program, const ExecutionGraph& graph) {
  Stuck stuck;
  for (const Message& message : graph.messages) {
    if (!message.matched) stuck.mismatches.push_back({message.send, message.receive});
  }
  for (const CollectiveMeeting& meeting : graph.meetings) {
    if (!meeting.matched) stuck.mismatches.push_back(mismatch_of(program, graph.members_of(meeting)));
  }
  if (stuck.mismatches.empty()) return std::nullopt;
  return stuck;
}

Stuck explain_stalls(const Program& program, const ExecutionGraph& graph, const RunState& state) {
  const StallFinder finder(graph, state);
  Stuck stuck;
  for (std::size_t i = 0; i < program.size(); ++i) {
    if (state.complete[i] != 0) continue;
    Stall stall = finder.stall_of(InstructionId(static_cast<std::int32_t>(i)));
    if (stall.reason == StallReason::place) {
      stall.waits_for = holder_of_place(program, state, program.rank_of(stall.waiter));
    }
    stuck.stalls.push_back(stall);
  }
  return stuck;
}

std::vector<Stall> culprits(const Stuck& stuck) {
  std::vector<Stall> chain;
  if (stuck.stalls.empty()) return chain;
  constexpr std::size_t kNotSeen = SIZE_MAX;
  std::vector<std::size_t> place_in_chain(stuck.stalls.size(), kNotSeen);
  std::size_t at = 0;
  while (place_in_chain[at] == kNotSeen) {
    const Stall& stall = stuck.stalls[at];
    place_in_chain[at] = chain.size();
    chain.push_back(stall);
    if (!stall.waits_for.valid()) return chain;
    const auto next = std::lower_bound(stuck.stalls.begin(), stuck.stalls.end(), stall.waits_for,
                                       [](const Stall& s, InstructionId id) { return s.waiter < id; });
    PPSIM_CHECK(next != stuck.stalls.end() && next->waiter == stall.waits_for,
                "a stall on a complete instruction");
    at = static_cast<std::size_t>(next - stuck.stalls.begin());
  }
  return {chain.begin() + static_cast<std::ptrdiff_t>(place_in_chain[at]), chain.end()};
}

Error to_error(const Program& program, const Stuck& stuck) {
  std::ostringstream text;
  if (!stuck.mismatches.empty()) {
    text << "the two ends of a transfer or collective name different things";
    for (const Mismatch& mismatch : stuck.mismatches) {
      text << '\n';
      write_instruction(text, program, mismatch.first);
      text << " meets ";
      write_instruction(text, program, mismatch.second);
    }
    return {ErrorCode::ill_formed, text.str()};
  }
  text << "deadlock: " << stuck.stalls.size() << " of " << program.size() << " instructions never complete";
  for (const Stall& stall : culprits(stuck)) {
    text << '\n';
    write_stall(text, program, stall);
  }
  return {ErrorCode::deadlock, text.str()};
}

}  // namespace ppsim
