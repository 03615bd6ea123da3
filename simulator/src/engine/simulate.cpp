#include "ppsim/simulator/engine/simulate.hpp"

#include <algorithm>

#include "clock.hpp"
#include "duration_sum.hpp"
#include "event_run.hpp"
#include "ppsim/core/ir/check.hpp"
#include "ppsim/simulator/engine/list_run.hpp"
#include "trace_of_ends.hpp"

namespace ppsim::simulator {
namespace {

/// Time alone.
struct NanosecondClock {
  using Time = Nanoseconds;
  static Time after(Time begin, Nanoseconds duration, std::uint32_t) { return begin + duration; }
};

/// Time and round: what takes no time completes in the next round.
struct RoundClock {
  using Time = Instant;
  static Time after(Time begin, Nanoseconds duration, std::uint32_t duration_index) {
    return duration_index == CompiledProgram::kJoin ? begin : completion(begin, duration);
  }
};

template <class Clock>
void run(const CompiledProgram& program, const BoundCosts& costs, std::vector<typename Clock::Time>& ends) {
  PPSIM_CHECK(costs.durations.size() == program.item_counts.size(), "costs bound to another Program");
  ends.resize(program.items.size());
  const CompiledItem* const items = program.items.data();
  const Nanoseconds* const durations = costs.durations.data();
  typename Clock::Time* const end = ends.data();
  const std::size_t count = program.items.size();
  end[0] = {};
  for (std::size_t i = 1; i < count; ++i) {
    const CompiledItem item = items[i];
    end[i] =
        Clock::after(std::max(end[item.first], end[item.second]), durations[item.duration], item.duration);
  }
}

RankTimes rank_times(const CompiledProgram& program, const BoundCosts& costs, const ComputeRow& row,
                     const std::vector<Nanoseconds>& ends) {
  if (row.first_item == 0) return {};
  RankTimes times;
  times.start = ends[row.first_item] - costs.durations[program.items[row.first_item].duration];
  times.end = ends[row.last_item];
  for (std::uint32_t i = row.first_count; i < row.first_count + row.count_count; ++i) {
    const DurationCount& counted = program.duration_counts[i];
    times.busy += counted.count * costs.durations[counted.duration];
  }
  return times;
}

}  // namespace

Error durations_do_not_fit() {
  return {ErrorCode::bad_argument,
          "the durations of the Program's actions do not fit in 64 bits of nanoseconds",
          {.found = "a larger sum", .expected = "at most 9223372036854775807 ns (292 years) in all"}};
}

Expected<void> check_sum(const CompiledProgram& program, const BoundCosts& costs) {
  Nanoseconds all = 0;
  for (std::size_t d = CompiledProgram::kFirstBound; d < costs.durations.size(); ++d) {
    Nanoseconds together = 0;
    if (__builtin_mul_overflow(costs.durations[d], program.item_counts[d], &together) ||
        __builtin_add_overflow(all, together, &all))
      return tl::unexpected(durations_do_not_fit());
  }
  return {};
}

Expected<BoundCosts> bind_costs(const CompiledProgram& program, const CostTable& costs) {
  BoundCosts bound{std::vector<Nanoseconds>(CompiledProgram::kFirstBound, 0)};
  for (const CostClass& cost_class : program.cost_classes) bound.durations.push_back(costs(cost_class));
  PPSIM_RETURN_IF_ERROR(check_sum(program, bound));
  return bound;
}

StepTimes simulate(const CompiledProgram& program, const BoundCosts& costs, SimulationScratch& scratch) {
  run<NanosecondClock>(program, costs, scratch.ends);
  StepTimes times;
  for (const std::uint32_t item : program.last_items)
    times.makespan = std::max(times.makespan, scratch.ends[item]);
  for (const ComputeRow& row : program.rows)
    times.ranks.push_back(rank_times(program, costs, row, scratch.ends));
  return times;
}

TimedTrace simulate_trace(const CompiledProgram& program, const ExecutionGraph& graph,
                          const BoundCosts& costs) {
  std::vector<Instant> ends;
  run<RoundClock>(program, costs, ends);
  return trace_of_ends(program, graph, ends);
}

TimedTrace trace_of_ends(const CompiledProgram& program, const ExecutionGraph& graph,
                         const std::vector<Instant>& ends) {
  TimedTrace trace{TimedTrace::Spans(graph.size())};
  for (const InstructionId id : trace.spans.ids()) {
    Span& span = trace.spans[id];
    for (const InstructionId before : graph.predecessors_of(id)) {
      span.start = std::max(span.start, ends[program.end_item[before.index()]]);
    }
    span.end = ends[program.end_item[id.index()]];
  }
  return trace;
}

bool ContendedCosts::differ_on(const TransportCapabilities& capabilities) const {
  return capabilities.guaranteed_launches.order != LaunchOrder::none && !beside_transfers.entries().empty();
}

Expected<SimulatedRun> simulate_program(const Program& program, const TransportCapabilities& capabilities,
                                        const CostTable& costs) {
  return simulate_beside_transfers({program, capabilities}, {costs, CostTable()});
}

Expected<SimulatedRun> simulate_beside_transfers(const AnalyzedProgram& analyzed,
                                                 const ContendedCosts& costs) {
  if (analyzed.capabilities().residency) return run_by_events(analyzed.program(), analyzed.graph(), costs);
  if (!costs.differ_on(analyzed.capabilities())) {
    if (auto run = run_in_list_order(analyzed, costs.costs))
      return std::move(*run).map([](TimedTrace trace) { return SimulatedRun(std::move(trace)); });
  }
  const tl::expected<CompiledProgram, Stuck> compiled = compile(analyzed);
  if (!compiled) return SimulatedRun(tl::unexpect, compiled.error());
  if (costs.differ_on(analyzed.capabilities()))
    return run_by_events(analyzed.program(), analyzed.timed_graph(), costs);
  PPSIM_ASSIGN_OR_RETURN(const BoundCosts bound, bind_costs(*compiled, costs.costs));
  return simulate_trace(*compiled, analyzed.timed_graph(), bound);
}

Nanoseconds rank_span(const StepTimes& times) {
  Nanoseconds longest = 0;
  for (const RankTimes& rank : times.ranks) longest = std::max(longest, rank.span());
  return longest;
}

Nanoseconds ideal_time(const StepTimes& times) {
  Nanoseconds longest = 0;
  for (const RankTimes& rank : times.ranks) longest = std::max(longest, rank.busy);
  return longest;
}

double bubble_fraction(const StepTimes& times) {
  if (times.makespan == 0) return 0;
  double busy = 0;
  for (const RankTimes& rank : times.ranks) busy += static_cast<double>(rank.busy);
  return 1 - busy / static_cast<double>(times.ranks.size()) / static_cast<double>(times.makespan);
}

double bubble_fraction_span(const StepTimes& times) {
  const RankTimes* longest = nullptr;
  for (const RankTimes& rank : times.ranks) {
    if (longest == nullptr || rank.span() > longest->span()) longest = &rank;
  }
  if (longest == nullptr || longest->span() == 0) return 0;
  return 1 - static_cast<double>(longest->busy) / static_cast<double>(longest->span());
}

}  // namespace ppsim::simulator
