#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <span>
#include <tuple>
#include <utility>

#include "ppsim/core/ir/inference.hpp"
#include "ppsim/simulator/metrics/metrics.hpp"
#include "support/random_program.hpp"
#include "support/random_schedule.hpp"

namespace ppsim {
namespace {

struct Run {
  AnalyzedProgram analyzed;
  CostTable costs;
  TimedTrace trace;
  const Program& program = analyzed.program();
  const ExecutionGraph& graph = analyzed.timed_graph();
};

Run draw_run() {
  const Schedule schedule = *test::schedules(test::general_shapes());
  const auto seed = *rc::gen::arbitrary<std::uint64_t>();
  const int mutations = *rc::gen::inRange(0, 3);
  const bool limited = *rc::gen::arbitrary<bool>();
  const TransportCapabilities capabilities = test::random_capabilities(limited, seed + 2);
  const AnalyzedProgram analyzed(test::random_program(schedule, mutations, seed), capabilities);
  const CostTable costs = test::random_costs(schedule.pipeline().stages(), seed + 1);
  const SimulatedRun run = simulate_beside_transfers(analyzed, {costs, CostTable()}).value();
  RC_PRE(run.has_value());
  return {analyzed, costs, *run};
}

RC_GTEST_PROP(MetricsProperty, BubblePartsAddUpToIdleTime, ()) {
  const Run run = draw_run();
  const SizeTable sizes;
  const RunMetrics metrics = measure({run.analyzed, run.trace, run.costs, sizes});
  for (const RankMetrics& rank : metrics.ranks) {
    RC_ASSERT(rank.bubble.total() == metrics.times.makespan - rank.times.busy);
    for (const Nanoseconds part : {rank.bubble.warmup, rank.bubble.steady, rank.bubble.cooldown,
                                   rank.bubble.exposed_communication, rank.bubble.imbalance}) {
      RC_ASSERT(part >= 0);
    }
  }
}

RC_GTEST_PROP(MetricsProperty, CriticalPathTilesTheStep, ()) {
  const Run run = draw_run();
  const SizeTable sizes;
  const std::vector<CriticalPiece> path = critical_path({run.analyzed, run.trace, run.costs, sizes});
  const Nanoseconds makespan = step_times(run.program, run.trace).makespan;
  RC_PRE(run.program.size() > 0);
  RC_ASSERT(!path.empty());
  RC_ASSERT(!path.front().reason);
  RC_ASSERT(path.front().start == 0);
  RC_ASSERT(path.back().end == makespan);
  for (std::size_t i = 1; i < path.size(); ++i) {
    RC_ASSERT(path[i].start == path[i - 1].end);
    RC_ASSERT(path[i].reason.has_value());
  }
}

bool all_started(const Run& run, std::span<const InstructionId> ends, Nanoseconds time) {
  return std::ranges::all_of(
      ends, [&](InstructionId id) { return id.valid() && run.trace.spans[id].start.time <= time; });
}

/// Whether a piece of the path is a transfer of its instruction, from when it could begin.
bool is_transfer(const Run& run, const CriticalPiece& piece, const Message& message) {
  const bool buffered = run.graph.capabilities.credits.has_value();
  if (buffered && message.receive == piece.instruction) return piece.start == piece.end;  // it had arrived
  const Action& send = run.program.all_actions()[message.send_action];
  const InstructionId ends[] = {message.send, buffered ? message.send : message.receive};
  return piece.end - piece.start == run.costs(cost_class_of(send)) && all_started(run, ends, piece.start);
}

/// Whether a piece of the path takes as long as what it stands for, and nothing of that began later.
bool is_whole(const Run& run, const CriticalPiece& piece) {
  const InstructionId id = piece.instruction;
  const auto messages = run.graph.messages_of(id);
  if (!messages.empty()) {
    return std::ranges::any_of(
        messages, [&](std::uint32_t m) { return is_transfer(run, piece, run.graph.messages[m]); });
  }
  const CostClass cost_class = cost_class_of(run.program.actions(id), run.program.instruction(id).form);
  if (piece.end - piece.start != run.costs(cost_class)) return false;
  const std::int32_t match = run.graph.match_of[id.index()];
  return match < 0 ||
         all_started(run, run.graph.members_of(run.graph.matches[static_cast<std::size_t>(match)]),
                     piece.start);
}

/// So the makespan is a sum of costs, none of which could begin earlier.
RC_GTEST_PROP(MetricsProperty, EveryPieceOfTheCriticalPathTakesItsCost, ()) {
  const Run run = draw_run();
  const SizeTable sizes;
  for (const CriticalPiece& piece : critical_path({run.analyzed, run.trace, run.costs, sizes}))
    RC_ASSERT(is_whole(run, piece));
}

/// The same run with times as a clock may have measured them: of no length, or begun too early.
TimedTrace as_measured(TimedTrace trace, int shaken) {
  for (Span& span : trace.spans) {
    if (*rc::gen::inRange(0, 100) >= shaken) continue;
    if (*rc::gen::arbitrary<bool>()) {
      span.end = span.start;
    } else {
      span.start.time = std::max<Nanoseconds>(0, span.start.time - *rc::gen::inRange(0, 20));
    }
  }
  return trace;
}

/// At the start of each life, the lives that have begun less those that are over.
int peak_by_counting(const Program& program, const TimedTrace& trace, RankId rank) {
  std::map<std::tuple<std::int32_t, std::int32_t, std::uint16_t>, std::pair<std::optional<Instant>, Instant>>
      lives;
  for (const InstructionId id : program.ids_of(rank)) {
    for (const Action& a : program.actions(id)) {
      const bool forward = a.kind == OpKind::forward;
      const bool ends = trains(program, rank) ? gives_weight_gradient(a.kind) : forward;
      if (!forward && !ends) continue;
      auto& [from, to] =
          lives.try_emplace({a.subject, a.microbatch, a.slice}, std::nullopt, Instant{-1, 0}).first->second;
      if (forward) from = std::min(from.value_or(trace.spans[id].start), trace.spans[id].start);
      if (ends) to = std::max(to, trace.spans[id].end);
    }
  }
  int peak = 0;
  for (const auto& [cell, life] : lives) {
    if (!life.first) continue;
    int live = 0;
    for (const auto& [other, one] : lives) {
      if (one.first && *one.first <= *life.first) ++live;
      if (happened(one.second) && one.second <= *life.first) --live;
    }
    peak = std::max(peak, live);
  }
  return peak;
}

RC_GTEST_PROP(MetricsProperty, PeakLiveActivationsAreThoseOfSomeStart, ()) {
  const Run run = draw_run();
  const TimedTrace trace = as_measured(run.trace, *rc::gen::element(0, 5, 50));
  const IdVector<RankId, int> peaks = peak_live_activations(run.program, trace);
  for (const RankId rank : run.program.pipeline().rank_ids())
    RC_ASSERT(peaks[rank] == peak_by_counting(run.program, trace, rank));
}

}  // namespace
}  // namespace ppsim
