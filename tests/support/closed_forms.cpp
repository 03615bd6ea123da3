#include "support/closed_forms.hpp"

#include <algorithm>
#include <stdexcept>

#include "ppsim/simulator/engine/simulate.hpp"
#include "ppsim/simulator/metrics/metrics.hpp"
#include "support/lowered.hpp"

namespace ppsim::test {

CostTable cost_table(const StageCosts& costs) {
  CostTable table;
  table.set({OpKind::forward}, costs.forward);
  table.set({OpKind::backward}, costs.backward);
  table.set({OpKind::backward_input}, costs.backward_input);
  table.set({OpKind::backward_weight}, costs.backward_weight);
  table.set({OpKind::overlap}, costs.overlap);
  table.set({OpKind::send_forward}, costs.transfer);
  table.set({OpKind::send_backward}, costs.transfer);
  return table;
}

StepTime step_time(const Schedule& schedule, const CostTable& costs) {
  const auto times = earliest_times(schedule, costs);
  if (!times) throw std::runtime_error(to_string(times.error()));
  struct Range {
    Nanoseconds start = -1, end = 0;
  };
  std::vector<Range> ranks(static_cast<std::size_t>(schedule.pipeline().ranks()));
  for (const EarliestTimes::Item& item : times->walk) {
    Range& range = ranks[item.rank.index()];
    if (range.start < 0) range.start = item.start;
    range.end = std::max(range.end, item.end);
  }
  StepTime result{times->makespan, 0};
  for (const Range& range : ranks) result.span = std::max(result.span, range.end - range.start);
  return result;
}

namespace {

TimedTrace simulated(const Program& program, const CostTable& costs) {
  auto run = simulate_program(program, rendezvous(), costs);
  if (!run) throw std::runtime_error(to_string(run.error()));
  if (!run->has_value()) throw std::runtime_error("the simulated run is stuck");
  return **std::move(run);
}

}  // namespace

StepTime simulated_step_time(const Schedule& schedule, const LoweringOptions& options,
                             const CostTable& costs) {
  const Program program = lowered(schedule, options, &costs);
  const StepTimes times = step_times(program, simulated(program, costs));
  return {times.makespan, rank_span(times)};
}

std::vector<StepTime> step_times_of(std::string_view name, const ScheduleParameters& parameters,
                                    const StageCosts& costs) {
  const Schedule schedule = generated(name, parameters);
  const CostTable table = cost_table(costs);
  std::vector<StepTime> times = {step_time(schedule, table)};
  for (const IssueOrder order : {IssueOrder::timed, IssueOrder::global}) {
    times.push_back(simulated_step_time(schedule, {.order = order}, table));
  }
  return times;
}

IdVector<RankId, int> simulated_peaks(const Schedule& schedule, const CostTable& costs) {
  const Program program = lowered(schedule, {.order = IssueOrder::timed}, &costs);
  return ppsim::peak_live_activations(program, simulated(program, costs));
}

bool has_backward(const Schedule& schedule, RankId rank) {
  const auto row = schedule.row(rank);
  return std::any_of(row.begin(), row.end(), [](const Cell& cell) {
    const auto actions = cell.actions();
    return std::any_of(actions.begin(), actions.end(),
                       [](const Action& action) { return gives_weight_gradient(action.kind); });
  });
}

int peak_live_activations(const Schedule& schedule, RankId rank) {
  const bool trains = has_backward(schedule, rank);
  int live = 0;
  int peak = 0;
  for (const Cell& cell : schedule.row(rank)) {
    for (const Action& action : cell.actions()) live += action.kind == OpKind::forward ? 1 : 0;
    peak = std::max(peak, live);
    for (const Action& action : cell.actions()) {
      const bool last = trains ? gives_weight_gradient(action.kind) : action.kind == OpKind::forward;
      live -= last ? 1 : 0;
    }
  }
  return peak;
}

Schedule generated(std::string_view name, const ScheduleParameters& parameters) {
  auto schedule = generate(name, parameters);
  if (!schedule) throw std::runtime_error(to_string(schedule.error()));
  return *std::move(schedule);
}

}  // namespace ppsim::test
