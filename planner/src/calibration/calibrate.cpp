#include "ppsim/planner/calibration/calibrate.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "collective_groups.hpp"
#include "fit_constants.hpp"
#include "ppsim/core/ir/concatenated.hpp"
#include "ppsim/core/ir/overflow.hpp"
#include "ppsim/gpu_backend/executor/measured_costs.hpp"
#include "ppsim/planner/costs/table_coverage.hpp"
#include "ppsim/planner/effects/replay.hpp"
#include "ppsim/simulator/engine/simulate.hpp"
#include "ppsim/simulator/metrics/kind_times.hpp"

namespace ppsim::planner {
namespace {

/// Keeps all: whole steps are compared, so their slow actions have to count.
constexpr double kOutliers = 0;
/// The number of steps that are combined from measured ones, where these are not more.
constexpr std::size_t kMixes = 64;

/// The durations of measured steps, and those of their halves.
struct Observations {
  Durations all;
  Durations half;
  Durations other;
  double step_ns = 0;        ///< the mean
  double other_step_ns = 0;  ///< of the other half of the steps; of a single step: itself
};

/// The trace in which every computation starts when its inputs have arrived.
TimedTrace without_waits(const AnalyzedProgram& analyzed, const TimedTrace& trace) {
  TimedTrace result = trace;
  const ReplayCosts costs = replay_costs(analyzed, trace);
  for (std::size_t i = 0; i < trace.spans.size(); ++i) {
    Span& span = result.spans[InstructionId(static_cast<std::int32_t>(i))];
    if (happened(span.start))
      span.start.time = span.end.time - costs.durations[InstructionId(static_cast<std::int32_t>(i))];
  }
  return result;
}

Observations observed(const AnalyzedProgram& analyzed, const MeasuredSteps& steps) {
  std::vector<TimedTrace> traces = steps.traces;
  if (steps.computation_alone) {
    for (TimedTrace& trace : traces) trace = without_waits(analyzed, trace);
  }
  Observations result;
  result.all = measured_durations(analyzed, traces);
  result.step_ns = mean_step(steps.traces);
  result.other_step_ns = result.step_ns;
  if (traces.size() == 1) {
    for (const auto& [key, durations] : result.all)
      std::tie(result.half[key], result.other[key]) = alternate(durations);
    std::erase_if(result.other, [](const auto& one) { return one.second.empty(); });
    return result;
  }
  const auto [half, other] = alternate(traces);
  result.half = measured_durations(analyzed, half);
  result.other = measured_durations(analyzed, other);
  result.other_step_ns = mean_step(alternate(steps.traces).second);
  return result;
}

double total_of(const std::vector<Nanoseconds>& durations) {
  double total = 0;
  for (const Nanoseconds one : durations) total += static_cast<double>(one);
  return total;
}

/// The sum of the absolute errors of the classes of a kind, as a share of their time. Nothing where they took
/// no time.
std::optional<double> kind_error(const CostTable& costs, const Durations& durations, OpKind kind) {
  double wrong = 0;
  double all = 0;
  for (const auto& [key, values] : durations) {
    if (key.kind != kind) continue;
    const double total = total_of(values);
    wrong += std::abs(static_cast<double>(costs(key)) * static_cast<double>(values.size()) - total);
    all += total;
  }
  if (all == 0) return std::nullopt;
  return wrong / all;
}

/// The costs that are compared: given ones, fitted ones, and those fitted to one half. `half` is empty where
/// that half has too few measurements.
struct ComparedCosts {
  const std::optional<CostTable>& before;
  const CostTable& after;
  const std::optional<CostTable>& half;
};

CalibrationGroup kind_group(OpKind kind, const Observations& seen, const ComparedCosts& costs) {
  CalibrationGroup group{.name = std::string(info(kind).text)};
  for (const auto& [key, values] : seen.all) {
    if (key.kind != kind) continue;
    group.observations += static_cast<std::int64_t>(values.size());
    group.measured_ns += total_of(values);
  }
  if (costs.before) group.before = kind_error(*costs.before, seen.all, kind);
  group.after = kind_error(costs.after, seen.all, kind).value_or(0);
  if (costs.half) group.other_half = kind_error(*costs.half, seen.other, kind);
  return group;
}

Expected<double> simulated_step(const AnalyzedProgram& analyzed, const CostTable& costs) {
  PPSIM_ASSIGN_OR_RETURN(const auto run, simulate_beside_transfers(analyzed, {costs, CostTable()}));
  if (!run) return tl::unexpected(to_error(analyzed.program(), run.error()));
  return static_cast<double>(trace_span(*run));
}

Expected<CalibrationGroup> step_group(const CalibrationRequest& request, const Observations& seen,
                                      const ComparedCosts& costs) {
  CalibrationGroup group{.name = "step",
                         .observations = static_cast<std::int64_t>(request.steps.traces.size()),
                         .measured_ns = seen.step_ns};
  const auto error = [&](const CostTable& table, double measured) -> Expected<double> {
    PPSIM_ASSIGN_OR_RETURN(const auto simulated, simulated_step(*request.program, table));
    return measured == 0 ? 0 : simulated / measured - 1;
  };
  if (costs.before) {
    PPSIM_ASSIGN_OR_RETURN(group.before, error(*costs.before, seen.step_ns));
  }
  PPSIM_ASSIGN_OR_RETURN(group.after, error(costs.after, seen.step_ns));
  if (costs.half && !seen.other.empty()) {
    PPSIM_ASSIGN_OR_RETURN(group.other_half, error(*costs.half, seen.other_step_ns));
  }
  return group;
}

/// The costs of a step combined from different ones: rank r has its times of step first + r * shift, modulo
/// the number of steps.
ReplayCosts mixed_costs(const AnalyzedProgram& analyzed, const std::vector<ReplayCosts>& steps,
                        std::size_t first, std::size_t shift) {
  const auto step_of = [&](InstructionId id) -> const ReplayCosts& {
    return steps[(first + shift * analyzed.program().rank_of(id).index()) % steps.size()];
  };
  ReplayCosts mix = steps[first];
  for (const InstructionId id : analyzed.program().ids()) {
    mix.delays[id] = step_of(id).delays[id];
    mix.durations[id] = step_of(id).durations[id];
  }
  // A message is that of its SEND's step, on both of its ends.
  const auto& messages = analyzed.timed_graph().messages;
  for (std::size_t i = 0; i < messages.size(); ++i) {
    const ReplayCosts& sent = step_of(messages[i].send);
    mix.messages[i] = sent.messages[i];
    if (messages[i].complete()) mix.durations[messages[i].receive] = sent.durations[messages[i].receive];
  }
  return mix;
}

/// The mean of mixed steps, in which every step counts as often for every rank. Requires: two steps.
double varied_step(const AnalyzedProgram& analyzed, const std::vector<TimedTrace>& traces) {
  const std::size_t count = traces.size();
  std::vector<ReplayCosts> steps;
  for (const TimedTrace& trace : traces) steps.push_back(replay_costs(analyzed, trace));
  const std::size_t shifts = std::clamp<std::size_t>(kMixes / count, 1, count - 1);
  double sum = 0;
  for (std::size_t shift = 1; shift <= shifts; ++shift) {
    for (std::size_t first = 0; first < count; ++first)
      sum += static_cast<double>(trace_span(replayed(analyzed, mixed_costs(analyzed, steps, first, shift))));
  }
  return sum / static_cast<double>(shifts * count);
}

/// Nothing where a half has a single step or took no time, or where times of different steps add up to more
/// than 64 bits hold.
std::optional<CalibrationGroup> varied_group(const AnalyzedProgram& analyzed,
                                             const std::vector<TimedTrace>& traces) try {
  const auto [half, other] = alternate(traces);
  if (other.size() < 2 || mean_step(half) == 0 || mean_step(other) == 0) return std::nullopt;
  const double measured = mean_step(traces);
  return CalibrationGroup{.name = "step, varied",
                          .observations = static_cast<std::int64_t>(traces.size()),
                          .measured_ns = measured,
                          .after = varied_step(analyzed, traces) / measured - 1,
                          .other_half = varied_step(analyzed, half) / mean_step(other) - 1};
} catch (const Overflow&) {
  return std::nullopt;
}

/// The kinds that were measured, in their order.
std::vector<OpKind> kinds_of(const Durations& durations) {
  std::vector<OpKind> kinds;
  for (const auto& [key, values] : durations) {
    if (std::ranges::find(kinds, key.kind) == kinds.end() && total_of(values) > 0) kinds.push_back(key.kind);
  }
  std::ranges::sort(kinds);
  return kinds;
}

/// Measured over modelled, of all actions of a kind together; nothing where the model says that they are
/// free.
std::optional<double> measured_ratio(const Durations& durations, const CostTable& model, OpKind kind) {
  double measured = 0;
  double modelled = 0;
  const CostTable means = mean_costs(durations, kOutliers);
  for (const auto& [key, values] : durations) {
    if (key.kind != kind) continue;
    measured += static_cast<double>(means(key)) * static_cast<double>(values.size());
    modelled += static_cast<double>(model(key)) * static_cast<double>(values.size());
  }
  if (modelled == 0) return std::nullopt;
  return measured / modelled;
}

/// Kinds that are not in the durations keep their factors.
Expected<void> find_factors(const Durations& durations, const CostTable& model, Calibration& calibration) {
  for (const OpKind kind : kinds_of(durations)) {
    const auto ratio = measured_ratio(durations, model, kind);
    if (!ratio) continue;
    if (*ratio < workload::kMinFactor || *ratio > workload::kMaxFactor) {
      return make_error(
          ErrorCode::bad_argument, "the traces are not of this model on this cluster",
          {.found = concatenated(info(kind).text, " takes ", *ratio, " times what the model says"),
           .expected = "a factor of 0.1 to 10, or measured costs without a model"});
    }
    calibration.factors[kind] = *ratio;
  }
  return {};
}

/// The costs of a workload as its calibration has them.
Expected<CostTable> workload_costs(const Workload& workload, const AnalyzedProgram& analyzed) {
  PPSIM_ASSIGN_OR_RETURN(auto costs, analytic_costs(workload, analyzed.program().pipeline()));
  return std::move(costs.tables.costs);
}

/// Gives the workload the calibration that durations say.
Expected<void> fit_workload(const CalibrationRequest& request, const Durations& durations,
                            Workload& workload) {
  if (request.fit != CalibrationFit::factors) {
    PPSIM_ASSIGN_OR_RETURN(const auto constants, fitted_constants(workload, *request.program, durations));
    workload.fitted = constants;
    workload.calibration.constants = constants;
  }
  if (request.fit == CalibrationFit::constants) return {};
  Workload plain = workload;
  plain.calibration.factors.clear();
  PPSIM_ASSIGN_OR_RETURN(const auto model, workload_costs(plain, *request.program));
  return find_factors(durations, model, workload.calibration);
}

/// The costs that one half of the observations alone would give, in the way of all of them.
std::optional<CostTable> half_costs(const CalibrationRequest& request, const Durations& half) {
  if (!request.workload) return mean_costs(half, kOutliers);
  Workload workload = *request.workload;
  if (!fit_workload(request, half, workload)) return std::nullopt;
  auto costs = workload_costs(workload, *request.program);
  return costs ? std::optional(*std::move(costs)) : std::nullopt;
}

/// The groups of actions and of the step.
Expected<void> compare_steps(const CalibrationRequest& request, std::optional<Workload>& workload,
                             CalibrationResult& result) {
  const Observations seen = observed(*request.program, request.steps);
  if (seen.all.empty())
    return make_error(ErrorCode::bad_argument, "nothing was measured", {.expected = "a step that ran"});
  result.measured = {
      .costs = mean_costs(seen.all, kOutliers), .sizes = {}, .spreads = cost_spreads(seen.all)};
  CostTable after = result.measured.costs;
  std::optional<CostTable> before = request.costs;
  if (workload) {
    PPSIM_ASSIGN_OR_RETURN(before, workload_costs(*request.workload, *request.program));
    PPSIM_RETURN_IF_ERROR(fit_workload(request, seen.all, *workload));
    PPSIM_ASSIGN_OR_RETURN(after, workload_costs(*workload, *request.program));
  }
  const std::optional<CostTable> half = half_costs(request, seen.half);
  const ComparedCosts costs{before, after, half};
  for (const OpKind kind : kinds_of(seen.all)) result.groups.push_back(kind_group(kind, seen, costs));
  PPSIM_ASSIGN_OR_RETURN(auto step, step_group(request, seen, costs));
  result.groups.push_back(std::move(step));
  result.varied = varied_group(*request.program, request.steps.traces);
  if (request.steps.computation_alone) result.measured = with_zeros(std::move(result.measured));
  return {};
}

/// Measurements of the same operation and group as one, with the mean of a size that occurs several times.
/// Order: of their first ones.
std::vector<MeasuredCollective> together(const std::vector<MeasuredCollective>& measured) {
  std::vector<MeasuredCollective> result;
  std::vector<std::map<Bytes, std::vector<Nanoseconds>>> times;
  for (const MeasuredCollective& one : measured) {
    const auto found = std::ranges::find_if(result, [&](const MeasuredCollective& other) {
      return other.operation == one.operation && other.group == one.group;
    });
    const auto index = as_size(found - result.begin());
    if (found == result.end()) {
      result.push_back({one.operation, one.group, {}});
      times.emplace_back();
    }
    for (const MeasuredTime& time : one.times) times[index][time.bytes].push_back(time.time);
  }
  for (std::size_t i = 0; i < result.size(); ++i) {
    for (const auto& [bytes, each] : times[i])
      result[i].times.push_back({bytes, std::llround(total_of(each) / static_cast<double>(each.size()))});
  }
  return result;
}

/// New times take the place of those of the same operation and group.
void merge(const std::vector<MeasuredCollective>& measured, std::vector<MeasuredCollective>& into) {
  for (const MeasuredCollective& one : measured) {
    std::erase_if(into, [&](const MeasuredCollective& old) {
      return old.operation == one.operation && old.group == one.group;
    });
    into.push_back(one);
  }
}

}  // namespace

Expected<CalibrationResult> calibrate(const CalibrationRequest& request) {
  if (request.steps.traces.empty() && request.collectives.empty())
    return make_error(ErrorCode::bad_argument, "there is nothing to calibrate with",
                      {.expected = "traces of steps, or output of nccl-tests"});
  CalibrationResult result;
  std::optional<Workload> workload = request.workload;
  Calibration bare;
  const std::vector<MeasuredCollective> collectives = together(request.collectives);
  merge(collectives, workload ? workload->calibration.collectives : bare.collectives);
  for (const MeasuredCollective& one : collectives)
    result.groups.push_back(collective_group(one, request.workload));
  if (!request.steps.traces.empty()) PPSIM_RETURN_IF_ERROR(compare_steps(request, workload, result));
  result.calibration = workload ? std::move(workload->calibration) : std::move(bare);
  return result;
}

}  // namespace ppsim::planner
