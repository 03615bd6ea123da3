#include <algorithm>

#include "engine/clock.hpp"
#include "message_times.hpp"
#include "ppsim/core/ir/check.hpp"

namespace ppsim::simulator {
namespace {

/// Walks a run backwards from its end, each time to something that ended when the current step began.
class PathFinder {
 public:
  explicit PathFinder(const TimedRun& run) : run_(run), messages_(run) {}

  std::vector<CriticalPiece> find() {
    if (run_.program.size() == 0) return {};
    explain_end(last_instruction());
    std::ranges::reverse(path_);
    return std::move(path_);
  }

 private:
  [[nodiscard]] const Span& span(InstructionId id) const { return run_.trace.spans[id]; }

  [[nodiscard]] InstructionId last_instruction() const {
    const auto last = std::ranges::max_element(run_.trace.spans, {}, &Span::end);
    return InstructionId(static_cast<std::int32_t>(last - run_.trace.spans.begin()));
  }

  /// Each turn adds the steps that led to the end of an instruction and finds the one whose end they waited
  /// for.
  void explain_end(InstructionId id) {
    for (InstructionId current = id; current.valid();) {
      const InstructionId binding = step_that_ended(current);
      current = binding.valid() ? explain_start(binding) : InstructionId();
    }
  }

  /// Adds what was in flight until the end of `id`; the instruction whose start began it.
  InstructionId step_that_ended(InstructionId id) {
    const std::int32_t match = run_.graph.match_of[id.index()];
    if (match >= 0) return collective_step(run_.graph.matches[as_size(match)], id);
    for (const std::uint32_t index : run_.graph.messages_of(id)) {
      const bool sends = run_.graph.messages[index].send == id;
      const MessageTimes times = messages_(index);
      if ((sends ? times.out : times.received) == span(id).end) {
        return message_step(index, !sends);
      }
    }
    add(id, span(id).start, span(id).end);
    return id;
  }

  InstructionId collective_step(const CollectiveMatch& match, InstructionId id) {
    const auto members = run_.graph.members_of(match);
    const InstructionId last = *std::ranges::max_element(
        members, [&](InstructionId a, InstructionId b) { return span(a).start < span(b).start; });
    add(last, span(last).start, span(id).end);
    return last;
  }

  /// The chain of messages that led to the departure (or the receipt) of one.
  InstructionId message_step(std::size_t index, bool receipt) {
    while (true) {
      const Message& message = run_.graph.messages[index];
      const MessageTimes times = messages_(index);
      if (receipt && times.received != times.out) {  // it had arrived before its RECV started
        add(message.receive, span(message.receive).start, times.received);
        return message.receive;
      }
      const bool by_send = span(message.send).start == times.begin;
      const bool by_receive = message.receive.valid() && span(message.receive).start == times.begin;
      const bool rendezvous = !run_.graph.capabilities.credits;
      const InstructionId end = !by_send && by_receive && rendezvous ? message.receive : message.send;
      add(end, times.begin, times.out);
      if (by_send || (by_receive && rendezvous)) return end;
      const auto credit = as_size(message.credit);
      if (message.credit >= 0 && messages_(credit).received == times.begin) {
        path_.back().reason = WaitReason::credit;
        index = credit;
        receipt = true;
      } else {
        path_.back().reason = WaitReason::channel;
        index = as_size(message.previous);
        receipt = false;
      }
    }
  }

  /// The instruction that ended when `id` started; the reason goes to the step added last. Invalid at the
  /// start.
  InstructionId explain_start(InstructionId id) {
    const auto before = run_.graph.predecessors_of(id);
    for (std::size_t i = 0; i < before.size(); ++i) {
      if (span(before[i]).end != span(id).start) continue;
      path_.back().reason = run_.graph.reasons_of(id)[i];
      return before[i];
    }
    if (span(id).start == Instant{}) return InstructionId();
    path_.back().reason = WaitReason::place;
    return holder_of_place(id);
  }

  /// The communication of the rank whose end freed a place for `id`.
  [[nodiscard]] InstructionId holder_of_place(InstructionId id) const {
    const RankId rank = run_.program.rank_of(id);
    for (const InstructionId other : run_.program.ids_of(rank)) {
      const bool communicates = is_communication(run_.program.actions(other)[0].kind);
      if (communicates && other != id && span(other).end == span(id).start) return other;
    }
    PPSIM_CHECK(false, "a start that nothing explains");
  }

  void add(InstructionId id, Instant start, Instant end) {
    path_.push_back({id, start.time, end.time, std::nullopt});
  }

  const TimedRun& run_;
  MessageClock messages_;
  std::vector<CriticalPiece> path_;
};

}  // namespace

std::string_view critical_reason_name(const CriticalPiece& piece) {
  return piece.reason ? wait_reason_name(*piece.reason) : "step_start";
}

std::vector<CriticalPiece> critical_path(const TimedRun& run) {
  if (run.measured) return {};
  return PathFinder(run).find();
}

}  // namespace ppsim::simulator
