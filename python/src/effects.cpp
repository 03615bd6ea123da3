// The effects of a cluster on a step: sensitivities, break-even points, random costs.

#include "effects.hpp"

#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "cost_binding.hpp"
#include "ppsim/planner/calibration/calibrate.hpp"
#include "ppsim/planner/calibration/nccl_tests.hpp"
#include "ppsim/planner/effects/replay.hpp"
#include "ppsim/planner/effects/sensitivity.hpp"
#include "ppsim/planner/effects/step_spread.hpp"
#include "ppsim/planner/files.hpp"
#include "ppsim/simulator/metrics/kind_times.hpp"

namespace ppsim::python {
namespace {

/// Numerator and denominator; None for infinity.
nb::object ratio_of(const Ratio& ratio) {
  if (ratio.is_infinite()) return nb::none();
  return nb::make_tuple(ratio.numerator(), ratio.denominator());
}

Data growth_of(const StepGrowth& growth) {
  return data({{"below", growth.below.slope},
               {"above", growth.above.slope},
               {"holds_from", ratio_of(growth.from)},
               {"holds_to", ratio_of(growth.to)}});
}

Data sensitivity_of(const Sensitivity& of) {
  return data({{"group", of.group},
               {"actions", of.actions},
               {"total_ns", of.total},
               {"one_percent_less_ns", of.one_percent_less},
               {"one_percent_more_ns", of.one_percent_more},
               {"path", growth_of(of.scaled)}});
}

/// By kind there is the network of a model, too, whose costs are the step's alone.
DataList sensitivities_of(const SimulatedStep& step, const std::string& by, const Sources& costs) {
  DataList result;
  const CostGrouping grouping = value_of(cost_grouping_from_name(by));
  for (const Sensitivity& of : value_of(sensitivities(step, grouping))) result.append(sensitivity_of(of));
  const auto* model = costs.size() == 1 ? std::get_if<Workload>(&costs.front().value) : nullptr;
  if (model == nullptr || grouping != CostGrouping::kind) return result;
  for (const Sensitivity& of : value_of(network_sensitivities(step, *model)))
    result.append(sensitivity_of(of));
  return result;
}

Data break_even_of(const SimulatedStep& first, const SimulatedStep& second, const std::string& over,
                   bool added) {
  const CostGroup group = value_of(cost_group_from_text(over));
  const BreakEven found = value_of(break_even(first, second, {group, added}));
  nb::list ranges;
  for (const ShorterRange& range : found.ranges)
    ranges.append(nb::make_tuple(ratio_of(range.from), range.shorter));
  return data({{"added", found.added}, {"ranges", ranges}});
}

/// The functions that python/ppsim/effects.py calls.
struct SpreadWords {
  std::vector<std::tuple<std::string, std::string>> vary;
  std::string vary_ranks;
  std::vector<std::tuple<int, double>> slow_ranks;
  std::vector<std::tuple<int, int, double>> slow_links;
  int samples = 1000;
  std::uint64_t seed = 1;
  int threads = 1;
};

SpreadOptions spread_options(const SpreadWords& words) {
  SpreadOptions options{.samples = words.samples, .seed = words.seed, .threads = words.threads};
  for (const auto& [costs, spread] : words.vary) {
    VaryingCosts varying{std::nullopt, value_of(factor_spread_from_text(spread))};
    if (costs != "all") varying.group = value_of(cost_group_from_text(costs));
    options.disturbances.varying.push_back(std::move(varying));
  }
  if (!words.vary_ranks.empty())
    options.disturbances.ranks = value_of(factor_spread_from_text(words.vary_ranks));
  for (const auto& [rank, factor] : words.slow_ranks)
    options.disturbances.slow_ranks.push_back({RankId(rank), factor});
  for (const auto& [a, b, factor] : words.slow_links)
    options.disturbances.slow_links.push_back({RankId(a), RankId(b), factor});
  return options;
}

Data step_spread_of(const SimulatedStep& step, const SpreadWords& words) {
  const SpreadOptions options = spread_options(words);
  StepSpread spread;
  {
    const nb::gil_scoped_release release;
    spread = value_of(step_spread(step, options));
  }
  nb::list gains, errors;
  for (const RankSpread& rank : spread.ranks) {
    gains.append(rank.gain_ns);
    errors.append(rank.gain_error_ns);
  }
  return data({{"planned_ns", spread.planned_ns},
               {"steps_ns", spread.steps_ns},
               {"mean_ns", spread.step_ns.mean},
               {"mean_error_ns", spread.step_ns.mean_error},
               {"gains_ns", gains},
               {"gain_errors_ns", errors}});
}

/// The arguments of ppsim.calibrate.
struct CalibrationWords {
  std::vector<std::string> traces;
  std::vector<std::tuple<std::string, std::string>> nccl_tests;  ///< operation, or "", and file
  std::string fit = "factors";
  bool all_steps = false;
};

CalibrationFit fit_of(const std::string& name) {
  if (name == "factors") return CalibrationFit::factors;
  if (name == "constants") return CalibrationFit::constants;
  if (name == "both") return CalibrationFit::both;
  throw CoreError({ErrorCode::bad_argument,
                   "nothing that can be fitted",
                   {.found = name, .expected = "factors, constants or both"}});
}

MeasuredCollective collective_of(const std::string& operation, const std::string& file) {
  std::optional<MeasuredOperation> named;
  if (!operation.empty()) {
    named = workload::operation_from_name(operation);
    if (!named)
      throw CoreError(
          {ErrorCode::bad_argument,
           "unknown operation",
           {.found = operation, .expected = "all_gather, all_reduce, alltoall, reduce_scatter or sendrecv"}});
  }
  return value_of(read_nccl_tests(value_of(read_text_file(file)), file, named));
}

nb::object share_of(const std::optional<double>& share) { return share ? nb::cast(*share) : nb::none(); }

Data group_of(const CalibrationGroup& group) {
  return data({{"name", group.name},
               {"observations", group.observations},
               {"measured_ns", group.measured_ns},
               {"before", share_of(group.before)},
               {"after", group.after},
               {"other_half", share_of(group.other_half)}});
}

Data calibrated_of(const SimulatedStep* step, const Sources& sources, const CalibrationWords& words) {
  CalibrationRequest request;
  request.fit = fit_of(words.fit);
  std::size_t left_out = 0;
  for (const auto& [operation, file] : words.nccl_tests)
    request.collectives.push_back(collective_of(operation, file));
  for (const Source& source : sources) {
    if (const auto* work = std::get_if<Workload>(&source.value)) request.workload = *work;
  }
  if (step != nullptr) {
    request.program = &step->analyzed;
    request.costs = step->costs.tables.costs;
    request.steps = value_of(read_measured_steps(words.traces, step->program()));
    if (!words.all_steps) left_out = leave_out_disturbed(request.steps);
  }
  CalibrationResult found = value_of(calibrate(request));
  found.calibration.sources = words.traces;
  for (const auto& one : words.nccl_tests) found.calibration.sources.push_back(std::get<1>(one));
  DataList groups;
  for (const CalibrationGroup& group : found.groups) groups.append(group_of(group));
  nb::dict factors;
  for (const auto& [kind, factor] : found.calibration.factors)
    factors[nb::cast(std::string(info(kind).text))] = factor;
  return data({{"groups", groups},
               {"factors", factors},
               {"text", to_json(found.calibration)},
               {"hash", calibration_hash(found.calibration)},
               {"table", to_json(found.measured)},
               {"left_out_steps", left_out},
               {"varied", found.varied ? nb::object(group_of(*found.varied)) : nb::none()}});
}

/// The measured step, as it is replayed, and with changes.
Data replay_of(const SimulatedStep& step, const std::vector<std::string>& traces,
               const std::map<std::string, double>& changes, const SimulatedStep* other) {
  const MeasuredSteps steps = value_of(read_measured_steps(traces, step.program()));
  if (steps.traces.empty())
    throw CoreError({ErrorCode::bad_argument, "no trace", {.expected = "a measured step"}});
  std::vector<ReplayChange> all;
  for (const auto& [group, factor] : changes) all.push_back({value_of(cost_group_from_text(group)), factor});
  const AnalyzedProgram* const changed = other == nullptr ? nullptr : &other->analyzed;
  nb::dict result;
  std::vector<std::pair<Nanoseconds, Nanoseconds>> replays;
  for (const TimedTrace& trace : steps.traces) {
    const ReplayCosts measured = replay_costs(step.analyzed, trace);
    const Nanoseconds replay = trace_span(value_of(replay_changed({step.analyzed, measured}, changed, all)));
    if (replays.empty()) result["unchanged_ns"] = trace_span(replayed(step.analyzed, measured));
    replays.emplace_back(trace_span(trace), replay);
  }
  result["measured_ns"] = replays.front().first;
  result["step_ns"] = replays.front().second;
  result["steps_ns"] = nb::tuple(nb::cast(replays));
  return Data(result);
}

}  // namespace

void bind_effects(nb::module_& module) {
  nb::class_<CalibrationWords>(module, "CalibrationWords", "What ppsim.calibration asks.")
      .def(nb::init<>())
      .def_rw("traces", &CalibrationWords::traces)
      .def_rw("nccl_tests", &CalibrationWords::nccl_tests)
      .def_rw("fit", &CalibrationWords::fit)
      .def_rw("all_steps", &CalibrationWords::all_steps);
  module.def("calibrate", &calibrated_of, "step"_a.none(), "sources"_a, "words"_a);
  module.def("replay", &replay_of, "step"_a, "traces"_a, "changes"_a, "other"_a.none());
  nb::class_<SpreadWords>(module, "SpreadWords", "What ppsim.effects asks.")
      .def(nb::init<>())
      .def_rw("vary", &SpreadWords::vary)
      .def_rw("vary_ranks", &SpreadWords::vary_ranks)
      .def_rw("slow_ranks", &SpreadWords::slow_ranks)
      .def_rw("slow_links", &SpreadWords::slow_links)
      .def_rw("samples", &SpreadWords::samples)
      .def_rw("seed", &SpreadWords::seed)
      .def_rw("threads", &SpreadWords::threads);
  module.def("sensitivities", &sensitivities_of, "step"_a, "by"_a, "costs"_a);
  module.def("break_even", &break_even_of, "first"_a, "second"_a, "over"_a, "added"_a);
  module.def("step_spread", &step_spread_of, "step"_a, "words"_a);
}

}  // namespace ppsim::python
