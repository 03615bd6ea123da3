#include "ppsim/simulator/metrics/metrics.hpp"

#include <algorithm>

#include "bubble.hpp"
#include "message_times.hpp"
#include "ppsim/core/ir/inference.hpp"
#include "ppsim/core/ir/padding.hpp"

namespace ppsim::simulator {
namespace {

bool on_compute(const Program& program, InstructionId id) {
  return info(program.actions(id)[0].kind).resource == Resource::compute;
}

/// A change of the number of live activations.
struct LiveChange {
  Instant at;
  int change;
  /// Within one round, completions come before starts.
  friend auto operator<=>(const LiveChange&, const LiveChange&) = default;
};

/// Start of an F, or end of a B or W; of the F itself where the program has no backward.
struct LifeEvent {
  Action activation;  ///< F of its stage, microbatch and slice
  bool ends = false;
  Instant at;
  friend auto operator<=>(const LifeEvent&, const LifeEvent&) = default;
};

std::vector<LifeEvent> life_events(const Program& program, const TimedTrace& trace, RankId rank) {
  const bool training = trains(program, rank);
  std::vector<LifeEvent> events;
  for (InstructionId id = program.first(rank); id < program.last(rank); id = next(id)) {
    for (const Action& action : program.actions(id)) {
      const bool forward = action.kind == OpKind::forward;
      const bool last = training ? gives_weight_gradient(action.kind) : forward;
      const Action activation = make_action(OpKind::forward, action.subject, action.microbatch, action.slice);
      if (forward) events.push_back({activation, false, trace.spans[id].start});
      if (last) events.push_back({activation, true, trace.spans[id].end});
    }
  }
  return events;
}

/// From the first start to the last end of each activation.
int peak_live(std::vector<LifeEvent> events) {
  std::sort(events.begin(), events.end());
  std::vector<LiveChange> changes;
  for (std::size_t i = 0; i < events.size(); ++i) {
    const LifeEvent& event = events[i];
    const bool first =
        i == 0 || events[i - 1].activation != event.activation || events[i - 1].ends != event.ends;
    const bool last = i + 1 == events.size() || events[i + 1].activation != event.activation;
    if (first && !event.ends) changes.push_back({event.at, 1});
    if (last && event.ends) changes.push_back({event.at, -1});
  }
  std::sort(changes.begin(), changes.end());
  int live = 0;
  int most = 0;
  for (const LiveChange& change : changes) most = std::max(most, live += change.change);
  return most;
}

Bytes bytes_sent(const RunView& run, RankId rank) {
  Bytes bytes = 0;
  for (InstructionId id = run.program.first(rank); id < run.program.last(rank); id = next(id)) {
    for (const Action& action : run.program.actions(id)) {
      if (is_send(action.kind)) bytes = checked_add(bytes, run.sizes(payload_class(action)));
    }
  }
  return bytes;
}

}  // namespace

StepTimes step_times(const Program& program, const TimedTrace& trace) {
  StepTimes times;
  for (const Span& span : trace.spans) times.makespan = std::max(times.makespan, span.end.time);
  for (RankId rank(0); rank.value() < program.pipeline().ranks(); rank = RankId(rank.value() + 1)) {
    RankTimes row;
    bool any = false;
    for (InstructionId id = program.first(rank); id < program.last(rank); id = next(id)) {
      if (!on_compute(program, id)) continue;
      const Span& span = trace.spans[id];
      if (!any) row.start = span.start.time;
      any = true;
      row.end = span.end.time;
      if (!is_padding(program.pipeline(), program.actions(id))) row.busy += span.end.time - span.start.time;
    }
    times.ranks.push_back(row);
  }
  return times;
}

IdVector<RankId, int> peak_live_activations(const Program& program, const TimedTrace& trace) {
  IdVector<RankId, int> peaks;
  for (int r = 0; r < program.pipeline().ranks(); ++r) {
    peaks.push_back(peak_live(life_events(program, trace, RankId(r))));
  }
  return peaks;
}

BubbleBreakdown RunMetrics::bubble() const {
  BubbleBreakdown sum;
  for (const RankMetrics& rank : ranks) sum += rank.bubble;
  return sum;
}

RunMetrics measure(const RunView& run) {
  const std::vector<MessageTimes> messages = message_times(run);
  const TensorTable& tensors = run.analyzed.tensors();
  const IdVector<RankId, int> live = peak_live_activations(run.program, run.trace);
  RunMetrics metrics;
  metrics.times = step_times(run.program, run.trace);
  metrics.memory = replay_memory(run.program, run.trace, tensors, tensor_sizes(tensors, run.sizes));
  for (int r = 0; r < run.program.pipeline().ranks(); ++r) {
    const RankId rank(r);
    metrics.ranks.push_back({.times = metrics.times.ranks[rank],
                             .bubble = bubble_of(run, messages, metrics.times, rank),
                             .peak_bytes = metrics.memory[rank].peak_bytes,
                             .peak_at = metrics.memory[rank].peak_at.time,
                             .peak_live_activations = live[rank],
                             .sent_bytes = bytes_sent(run, rank)});
  }
  if (!run.measured) metrics.critical_path = critical_path(run);
  return metrics;
}

double tokens_per_second(const StepWork& work, Nanoseconds makespan) {
  return makespan == 0 ? 0 : work.tokens / (static_cast<double>(makespan) * 1e-9);
}

double model_flops_utilization(const StepWork& work, Nanoseconds makespan) {
  if (makespan == 0 || work.peak_flops == 0) return 0;
  return work.model_flops / (work.peak_flops * static_cast<double>(makespan) * 1e-9);
}

}  // namespace ppsim::simulator
