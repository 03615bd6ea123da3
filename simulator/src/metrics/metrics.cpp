#include "ppsim/simulator/metrics/metrics.hpp"

#include <algorithm>

#include "bubble.hpp"
#include "message_times.hpp"
#include "ppsim/core/execution/rank_ranges.hpp"
#include "ppsim/core/ir/padding.hpp"
#include "ppsim/simulator/metrics/measure_sized.hpp"

namespace ppsim::simulator {
namespace {

Bytes bytes_sent(const TimedRun& run, RankId rank) {
  Bytes bytes = 0;
  if (run.sizes.entries().empty()) return bytes;
  for (const InstructionId id : run.program.ids_of(rank)) {
    for (const Action& action : run.program.actions(id)) {
      if (is_send(action.kind)) bytes = checked_add(bytes, run.sizes(payload_class(action)));
    }
  }
  return bytes;
}

/// Times of some ranks.
StepTimes times_of(const Program& program, const TimedTrace& trace, const RankRange& ranks) {
  StepTimes times;
  for (RankId rank = ranks.first; rank < ranks.last; rank = next(rank)) {
    RankTimes row;
    bool any = false;
    for (const InstructionId id : program.ids_of(rank)) {
      const Span& span = trace.spans[id];
      times.makespan = std::max(times.makespan, span.end.time);
      if (!is_compute(program.actions(id)[0].kind)) continue;
      if (!any) row.start = span.start.time;
      any = true;
      row.end = span.end.time;
      if (!is_padding(program.pipeline(), program.actions(id))) row.busy += span.end.time - span.start.time;
    }
    times.ranks.push_back(row);
  }
  return times;
}

}  // namespace

StepTimes step_times(const Program& program, const TimedTrace& trace) {
  StepTimes times;
  for (const StepTimes& part :
       by_rank_ranges(program, [&](const RankRange& ranks) { return times_of(program, trace, ranks); })) {
    times.makespan = std::max(times.makespan, part.makespan);
    for (const RankTimes& rank : part.ranks) times.ranks.push_back(rank);
  }
  return times;
}

BubbleBreakdown RunMetrics::bubble() const {
  BubbleBreakdown sum;
  for (const RankMetrics& rank : ranks) sum += rank.bubble;
  return sum;
}

double RunMetrics::bubble_fraction(RankId rank) const {
  if (times.makespan == 0) return 0;
  return 1 - static_cast<double>(ranks[rank].times.busy) / static_cast<double>(times.makespan);
}

RunMetrics measure(const TimedRun& run) { return measure(run, sized_tensors(run.program, run.sizes)); }

RunMetrics measure(const TimedRun& run, const SizedTensors& tensors) {
  const MessageClock messages(run);
  const IdVector<RankId, int> live = peak_live_activations(run.program, run.trace);
  RunMetrics metrics;
  metrics.times = step_times(run.program, run.trace);
  metrics.memory = replay_memory(run.program, run.trace, tensors.table, tensors.sizes);
  const auto metrics_of = [&](RankId rank) {
    return RankMetrics{.times = metrics.times.ranks[rank],
                       .bubble = bubble_of(run, messages, metrics.times, rank),
                       .peak_bytes = metrics.memory[rank].peak_bytes,
                       .peak_at = metrics.memory[rank].peak_at.time,
                       .peak_live_activations = live[rank],
                       .sent_bytes = bytes_sent(run, rank)};
  };
  const auto parts = by_rank_ranges(run.program, [&](const RankRange& ranks) {
    std::vector<RankMetrics> part;
    for (RankId rank = ranks.first; rank < ranks.last; rank = next(rank)) part.push_back(metrics_of(rank));
    return part;
  });
  for (const std::vector<RankMetrics>& part : parts) {
    for (const RankMetrics& rank : part) metrics.ranks.push_back(rank);
  }
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
