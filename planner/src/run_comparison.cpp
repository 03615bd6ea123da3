#include "ppsim/planner/run_comparison.hpp"

#include <algorithm>
#include <map>

#include "ppsim/core/ir/padding.hpp"
#include "ppsim/gpu_backend/executor/measured_costs.hpp"

namespace ppsim::planner {
namespace {

/// Attributes the gaps of all compute queues.
class GapWalk {
 public:
  explicit GapWalk(const TimedRun& run) : run_(run) {
    for (const Span& span : run.trace.spans) {
      if (step_.end == 0 || span.start.time < step_.begin) step_.begin = span.start.time;
      step_.end = std::max(step_.end, span.end.time);
    }
  }

  IdleSplit walk() {
    for (const RankId rank : run_.program.pipeline().rank_ids()) walk(rank);
    return split_;
  }

 private:
  /// Something that an action waits for, and what it should take.
  struct Work {
    Interval in_flight;
    Nanoseconds cost = 0;
  };

  [[nodiscard]] const Span& span(InstructionId id) const { return run_.trace.spans[id]; }

  void walk(RankId rank) {
    Nanoseconds free_since = step_.begin;
    for (const InstructionId id : run_.program.ids_of(rank)) {
      if (!is_compute(run_.program.actions(id)[0].kind)) continue;
      const Interval busy{span(id).start.time, span(id).end.time};
      attribute(id, {free_since, busy.begin});
      const bool works = !is_padding(run_.program.pipeline(), run_.program.actions(id));
      (works ? split_.busy : split_.wait) += busy.end - busy.begin;
      free_since = busy.end;
    }
    split_.wait += step_.end - free_since;
  }

  void attribute(InstructionId id, Interval gap) {
    const auto before = run_.graph.predecessors_of(id);
    const auto last = std::ranges::max_element(
        before, [&](InstructionId a, InstructionId b) { return span(a).end < span(b).end; });
    const Nanoseconds ready =
        last == before.end() ? gap.begin : std::clamp(span(*last).end.time, gap.begin, gap.end);
    split_.launch += gap.end - ready;
    const Interval waiting{gap.begin, ready};
    Nanoseconds rest = waiting.end - waiting.begin;
    if (rest == 0) return;
    if (!is_compute(run_.program.actions(*last)[0].kind)) {
      const Work work = work_of(*last);
      const Nanoseconds due = work.in_flight.begin + work.cost;
      const Nanoseconds transfer =
          overlap(waiting, {work.in_flight.begin, std::min(due, work.in_flight.end)});
      const Nanoseconds contention = overlap(waiting, {due, work.in_flight.end});
      split_.transfer += transfer;
      split_.contention += contention;
      rest -= transfer + contention;
    }
    split_.wait += rest;
  }

  [[nodiscard]] Work work_of(InstructionId id) const {
    const Action& action = run_.program.actions(id)[0];
    Work work{{span(id).start.time, span(id).end.time}, run_.costs(cost_class_of(action))};
    if (const std::int32_t match = run_.graph.match_of[id.index()]; match >= 0) {
      for (const InstructionId member : run_.graph.members_of(run_.graph.matches[as_size(match)]))
        work.in_flight.begin = std::max(work.in_flight.begin, span(member).start.time);
    }
    bool first = true;
    for (const std::uint32_t index : run_.graph.messages_of(id)) {
      const Work message = work_of(run_.graph.messages[index]);
      if (first || message.in_flight.begin > work.in_flight.begin) work = message;
      first = false;
    }
    return work;
  }

  [[nodiscard]] Work work_of(const Message& message) const {
    Interval in_flight{span(message.send).start.time, span(message.send).end.time};
    if (!run_.graph.capabilities.credits) {
      in_flight.begin = std::max(in_flight.begin, span(message.receive).start.time);
      in_flight.end = span(message.receive).end.time;
    }
    return {in_flight, run_.costs(cost_class_of(run_.program.all_actions()[message.send_action]))};
  }

  const TimedRun& run_;
  Interval step_;
  IdleSplit split_;
};

}  // namespace

IdleSplit idle_split(const TimedRun& run) { return GapWalk(run).walk(); }

RunComparison compare_run(const AnalyzedProgram& analyzed, const VerifiedRun& run) {
  const TimedTrace& measured = run.compared_trace();
  std::map<OpKind, KindComparison> kinds;
  const auto of = [&](OpKind kind) -> KindComparison& {
    KindComparison& found = kinds[kind];
    found.kind = kind;
    return found;
  };
  for (const auto& [key, values] : measured_durations(analyzed, {&measured, 1})) {
    of(key.kind).count += static_cast<std::int64_t>(values.size());
    for (const Nanoseconds value : values) of(key.kind).measured += value;
  }
  for (const auto& [key, values] : measured_durations(analyzed, {&run.simulated, 1})) {
    for (const Nanoseconds value : values) of(key.kind).simulated += value;
  }
  const SizeTable no_sizes;
  RunComparison result;
  for (const auto& [key, times] : kinds) result.kinds.push_back(times);
  result.measured = idle_split({analyzed, measured, run.costs, no_sizes});
  result.simulated = idle_split({analyzed, run.simulated, run.costs, no_sizes});
  return result;
}

}  // namespace ppsim::planner
