#include "hang_report.hpp"

#include <algorithm>

#include "ppsim/core/text.hpp"

namespace ppsim {
namespace {

/// Reads the waits off the states of a run that stands still.
class Reporter {
 public:
  Reporter(const ExecutionGraph& graph, const std::vector<InstructionState>& states)
      : graph_(graph), states_(states), sent_(graph.messages.size()), received_(graph.messages.size()) {
    // Nothing moves any more, so what could move has moved. Channels stand in order.
    for (std::size_t m = 0; m < graph_.messages.size(); ++m) settle(m);
  }

  std::vector<HangWait> report(const std::vector<Lane>& lanes) {
    for (const Lane& lane : lanes) {
      const auto head =
          std::find_if(lane.instructions.begin(), lane.instructions.end(),
                       [&](InstructionId id) { return states_[id.index()] != InstructionState::complete; });
      if (head == lane.instructions.end()) continue;
      if (states_[head->index()] == InstructionState::waiting) {
        explain_waiting(*head);
      } else {
        explain_started(*head);
      }
    }
    return std::move(waits_);
  }

  [[nodiscard]] bool can_move(InstructionId id) const {
    switch (states_[id.index()]) {
      case InstructionState::complete:
        return false;
      case InstructionState::waiting:
        return can_start(id);
      case InstructionState::started:
        return can_complete(id);
    }
    return false;
  }

 private:
  [[nodiscard]] bool can_start(InstructionId id) const {
    const auto before = graph_.predecessors_of(id);
    return !graph_.waits_forever(id) && std::all_of(before.begin(), before.end(), [&](InstructionId p) {
      return states_[p.index()] == InstructionState::complete;
    });
  }
  [[nodiscard]] bool can_complete(InstructionId id) const {
    const std::int32_t meeting = graph_.meeting_of[id.index()];
    if (meeting >= 0 && !can_meet(graph_.meetings[static_cast<std::size_t>(meeting)])) return false;
    const auto messages = graph_.messages_of(id);
    return std::all_of(messages.begin(), messages.end(), [&](std::uint32_t m) {
      return (graph_.messages[m].send != id || sent_[m]) &&
             (graph_.messages[m].receive != id || received_[m]);
    });
  }
  [[nodiscard]] bool can_meet(const CollectiveMeeting& meeting) const {
    const auto members = graph_.members_of(meeting);
    return meeting.complete &&
           std::all_of(members.begin(), members.end(), [&](InstructionId member) { return started(member); });
  }
  [[nodiscard]] bool started(InstructionId id) const {
    return id.valid() && states_[id.index()] != InstructionState::waiting;
  }
  [[nodiscard]] bool received(std::int32_t m) const {
    return m < 0 || received_[static_cast<std::size_t>(m)];
  }
  [[nodiscard]] bool sent(std::int32_t m) const { return m < 0 || sent_[static_cast<std::size_t>(m)]; }

  void settle(std::size_t m) {
    const Message& message = graph_.messages[m];
    if (graph_.capabilities.credits) {
      sent_[m] = started(message.send) && sent(message.previous) && received(message.credit);
      received_[m] = sent_[m] && started(message.receive) && received(message.previous);
    } else {
      sent_[m] = started(message.send) && started(message.receive) && sent(message.previous);
      received_[m] = sent_[m];
    }
  }

  void add(InstructionId id, InstructionId on, std::string why) {
    waits_.push_back({id, on, std::move(why)});
  }

  void explain_waiting(InstructionId id) {
    for (const Unsatisfiable& u : graph_.unsatisfiable) {
      if (u.instruction == id) add(id, InstructionId(), u.why);
    }
    const auto before = graph_.predecessors_of(id);
    for (std::size_t i = 0; i < before.size(); ++i) {
      if (states_[before[i].index()] == InstructionState::complete) continue;
      add(id, before[i], reason_text(graph_.reasons_of(id)[i]));
    }
  }

  static std::string reason_text(WaitReason reason) {
    switch (reason) {
      case WaitReason::data:
        return "it needs its result";
      case WaitReason::queue:
        return "it stands before it on their queue";
      case WaitReason::after:
        return "it is listed as after it";
      case WaitReason::host:
        return "the host blocks on it";
    }
    return "";
  }

  void explain_started(InstructionId id) {
    if (graph_.messages_of(id).empty() && graph_.meeting_of[id.index()] < 0) add(id, id, "it is running");
    for (const std::uint32_t m : graph_.messages_of(id)) {
      const Message& message = graph_.messages[m];
      if (message.send == id) explain_send(id, message, m);
      if (message.receive == id) explain_receive(id, message, m);
    }
    if (graph_.meeting_of[id.index()] >= 0) explain_meeting(id);
  }

  void explain_receive(InstructionId id, const Message& message, std::uint32_t m) {
    // What is behind an unfinished message of its own group waits for that one.
    if (received_[m] || !received(message.previous)) return;
    explain_counterpart(id, message.send, "SEND");
  }

  void explain_send(InstructionId id, const Message& message, std::uint32_t m) {
    if (sent_[m] || !sent(message.previous)) return;
    if (!graph_.capabilities.credits) return explain_counterpart(id, message.receive, "RECV");
    std::int32_t first = message.credit;
    while (!received(graph_.messages[static_cast<std::size_t>(first)].previous)) --first;
    const InstructionId receive = graph_.messages[static_cast<std::size_t>(first)].receive;
    add(id, receive, receive.valid() ? "no credit before it receives" : "no credit, and no RECV frees one");
  }

  void explain_counterpart(InstructionId id, InstructionId other, const std::string& kind) {
    add(id, other, other.valid() ? "its counterpart has not started" : "no " + kind + " meets it");
  }

  void explain_meeting(InstructionId id) {
    const CollectiveMeeting& meeting =
        graph_.meetings[static_cast<std::size_t>(graph_.meeting_of[id.index()])];
    for (const InstructionId member : graph_.members_of(meeting)) {
      if (!started(member)) add(id, member, "its part of the collective has not started");
    }
    if (!meeting.complete) add(id, InstructionId(), "a member of the communicator takes no part");
  }

  const ExecutionGraph& graph_;
  const std::vector<InstructionState>& states_;
  std::vector<bool> sent_;
  std::vector<bool> received_;
  std::vector<HangWait> waits_;
};

std::string place_text(const Program& program, InstructionId id) {
  return "rank " + std::to_string(program.rank_of(id).value()) + ": " + actions_text(program, id);
}

}  // namespace

std::vector<HangWait> hang_report(const ExecutionGraph& graph, const std::vector<Lane>& lanes,
                                  const std::vector<InstructionState>& states) {
  return Reporter(graph, states).report(lanes);
}

bool can_move(const ExecutionGraph& graph, const std::vector<InstructionState>& states) {
  const Reporter reporter(graph, states);
  for (std::size_t i = 0; i < states.size(); ++i) {
    if (reporter.can_move(InstructionId(static_cast<std::int32_t>(i)))) return true;
  }
  return false;
}

std::string hang_text(const Program& program, const HangWait& wait) {
  if (wait.waits_for == wait.instruction) return place_text(program, wait.instruction) + " is running";
  const std::string on =
      wait.waits_for.valid() ? place_text(program, wait.waits_for) : "nothing in the program";
  return place_text(program, wait.instruction) + " waits for " + on + " (" + wait.why + ")";
}

}  // namespace ppsim
