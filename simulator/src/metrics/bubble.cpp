#include "bubble.hpp"

#include <algorithm>

#include "ppsim/core/ir/padding.hpp"

namespace ppsim::simulator {
namespace {

/// Attributes the gaps of one compute queue.
class GapWalk {
 public:
  GapWalk(const TimedRun& run, const MessageClock& messages, RankId rank)
      : run_(run), messages_(messages), rank_(rank) {
    find_phases();
  }

  BubbleBreakdown walk(const StepTimes& times) {
    Nanoseconds free_since = 0;
    for (const InstructionId id : compute_) {
      const Span& span = run_.trace.spans[id];
      const Interval gap{free_since, span.start.time};
      const Nanoseconds exposed = exposed_before(id, gap);
      bubble_.exposed_communication += exposed;
      phase_of(gap) += gap.end - gap.begin - exposed;
      free_since = span.end.time;
    }
    const Interval rest{free_since, times.makespan};
    phase_of(rest) += rest.end - rest.begin;
    move_imbalance(ideal_time(times) - times.ranks[rank_].busy);
    return bubble_;
  }

 private:
  void find_phases() {
    bool has_forward = false;
    bool has_backward = false;
    const Program& program = run_.program;
    for (const InstructionId id : program.ids_of(rank_)) {
      const auto actions = program.actions(id);
      if (info(actions[0].kind).resource != Resource::compute) continue;
      if (is_padding(program.pipeline(), actions)) continue;
      const Span& span = run_.trace.spans[id];
      if (compute_.empty()) first_backward_ = span.start.time;
      if (!has_forward) last_forward_ = span.end.time;
      compute_.push_back(id);
      if (actions[0].kind == OpKind::forward) {
        has_forward = true;
        last_forward_ = span.end.time;
      }
      if (!has_backward && gives_input_gradient(actions[actions.size() - 1].kind)) {
        has_backward = true;
        first_backward_ = span.start.time;
      }
    }
  }

  Nanoseconds& phase_of(Interval gap) {
    if (compute_.empty() || gap.end <= first_backward_) return bubble_.warmup;
    return gap.begin >= last_forward_ ? bubble_.cooldown : bubble_.steady;
  }

  /// How much of the gap the action that ended last before `id` was in flight.
  [[nodiscard]] Nanoseconds exposed_before(InstructionId id, Interval gap) const {
    if (gap.begin >= gap.end) return 0;
    Nanoseconds exposed = 0;
    Nanoseconds ready = 0;
    for (const InstructionId before : run_.graph.predecessors_of(id))
      ready = std::max(ready, run_.trace.spans[before].end.time);
    for (const InstructionId before : run_.graph.predecessors_of(id)) {
      if (run_.trace.spans[before].end.time != ready) continue;
      if (is_compute(run_.program.actions(before)[0].kind)) continue;
      exposed = std::max(exposed, overlap(in_flight(before), gap));
    }
    return exposed;
  }

  /// When the work of a communication or copy that ended last was going on.
  [[nodiscard]] Interval in_flight(InstructionId id) const {
    const Span& span = run_.trace.spans[id];
    Interval interval{span.start.time, span.end.time};
    if (run_.graph.match_of[id.index()] >= 0) {
      interval.begin = span.end.time - run_.costs(cost_class_of(run_.program.actions(id)[0]));
    }
    for (const std::uint32_t index : run_.graph.messages_of(id)) {
      const MessageTimes times = messages_(index);
      const Instant done = run_.graph.messages[index].send == id ? times.out : times.received;
      if (done == span.end) interval = {times.begin.time, times.out.time};
    }
    return interval;
  }

  void move_imbalance(Nanoseconds left) {
    for (Nanoseconds* part : {&bubble_.steady, &bubble_.cooldown, &bubble_.warmup}) {
      const Nanoseconds moved = std::min(left, *part);
      *part -= moved;
      bubble_.imbalance += moved;
      left -= moved;
    }
  }

  const TimedRun& run_;
  const MessageClock& messages_;
  RankId rank_;
  std::vector<InstructionId> compute_;
  Nanoseconds first_backward_ = 0;
  Nanoseconds last_forward_ = 0;
  BubbleBreakdown bubble_;
};

}  // namespace

BubbleBreakdown& BubbleBreakdown::operator+=(const BubbleBreakdown& other) {
  warmup += other.warmup;
  steady += other.steady;
  cooldown += other.cooldown;
  exposed_communication += other.exposed_communication;
  imbalance += other.imbalance;
  return *this;
}

BubbleBreakdown bubble_of(const TimedRun& run, const MessageClock& messages, const StepTimes& times,
                          RankId rank) {
  return GapWalk(run, messages, rank).walk(times);
}

}  // namespace ppsim::simulator
