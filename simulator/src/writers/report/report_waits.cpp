#include "report_waits.hpp"

namespace ppsim::simulator {
namespace {

InstructionId last_predecessor(const TimedRun& run, InstructionId id) {
  InstructionId last;
  for (const InstructionId before : run.graph.predecessors_of(id)) {
    if (!last.valid() || run.trace.spans[last].end < run.trace.spans[before].end) last = before;
  }
  const bool bound = last.valid() && (run.measured || run.trace.spans[last].end == run.trace.spans[id].start);
  return bound ? last : InstructionId();
}

/// Of both ends of a message, or all members of a collective, the one that started last: it began the
/// transfer.
InstructionId beginning_of(const TimedRun& run, InstructionId id) {
  InstructionId last = id;
  const auto take = [&](InstructionId other) {
    if (other.valid() && run.trace.spans[last].start < run.trace.spans[other].start) last = other;
  };
  const std::int32_t match = run.graph.match_of[id.index()];
  if (match >= 0) {
    for (const InstructionId member : run.graph.members_of(run.graph.matches[as_size(match)])) take(member);
  }
  for (const std::uint32_t index : run.graph.messages_of(id)) {
    const Message& message = run.graph.messages[index];
    // A message that a channel buffers leaves before its RECV starts.
    if (run.graph.capabilities.credits && message.send.valid()) return message.send;
    take(message.send);
    take(message.receive);
  }
  return last;
}

}  // namespace

ReportWait wait_of(const TimedRun& run, InstructionId id) {
  constexpr int kMaxHops = 64;  // a chain of transfers without an action between them is short
  ReportWait wait{last_predecessor(run, id), {}};
  InstructionId at = wait.last;
  for (int hop = 0; hop < kMaxHops && at.valid(); ++hop) {
    if (is_compute(run.program.actions(at)[0].kind)) {
      wait.source = at;
      return wait;
    }
    at = last_predecessor(run, beginning_of(run, at));
  }
  return wait;
}

}  // namespace ppsim::simulator
