#include <cmath>
#include <iostream>

#include "command_line/validators.hpp"
#include "commands/effects/effects.hpp"
#include "input/communicators.hpp"
#include "options/transport_choice.hpp"
#include "output/slowdown_output.hpp"
#include "ppsim/core/io/json.hpp"
#include "ppsim/core/ir/hash.hpp"
#include "ppsim/core/ir/sequences.hpp"
#include "ppsim/planner/calibration/calibrate.hpp"
#include "ppsim/planner/calibration/nccl_tests.hpp"
#include "ppsim/planner/calibration/slowdown_fit.hpp"
#include "ppsim/planner/files.hpp"
#include "ppsim/simulator/effects/shared_devices.hpp"
#include "ppsim/simulator/engine/stuck.hpp"
#include "ppsim/simulator/metrics/kind_times.hpp"

namespace ppsim::cli {
namespace {

struct CalibrateOptions {
  InputOptions input;
  CostOptions costs;
  TransportChoice transport;
  std::vector<std::string> traces, nccl_tests;
  std::string output, costs_out, fit = "factors";
  std::optional<int> ranks_per_device;
  bool all_steps = false;
};

Expected<void> check_options(const CalibrateOptions& options) {
  const auto bad = [](std::string message, std::string expected) {
    return make_error(ErrorCode::bad_argument, std::move(message), {.expected = std::move(expected)});
  };
  if (options.traces.empty() && options.nccl_tests.empty())
    return bad("there is nothing to calibrate with", "--trace FILE with an INPUT, or --nccl-tests FILE");
  if (options.traces.empty() != options.input.input.empty())
    return bad(options.traces.empty() ? "the steps of an INPUT are measured by traces"
                                      : "traces are those of an INPUT",
               options.traces.empty() ? "--trace FILE" : "the FILE or NAME that ran");
  if (!options.costs_out.empty() && options.traces.empty())
    return bad("a table of costs comes from traces", "--trace FILE");
  if (!options.output.empty() && !options.traces.empty() && options.costs.model.empty())
    return bad("factors are those of a model", "--model and --cluster, or --costs-out for a table of costs");
  if (options.ranks_per_device && options.traces.empty())
    return bad("slowdowns come from traces", "--trace FILE");
  if (options.all_steps && options.traces.empty()) return bad("steps are those of traces", "--trace FILE");
  if (options.fit != "factors" && options.costs.model.empty())
    return bad("--fit is for a model", "--model and --cluster");
  return {};
}

/// "all_reduce=FILE" or "FILE".
Expected<MeasuredCollective> read_collective(const std::string& argument) {
  const std::size_t equals = argument.find('=');
  std::optional<MeasuredOperation> operation;
  if (equals != std::string::npos) operation = workload::operation_from_name(argument.substr(0, equals));
  const std::string file = operation ? argument.substr(equals + 1) : argument;
  PPSIM_ASSIGN_OR_RETURN(const auto text, read_text_file(file));
  return read_nccl_tests(text, file, operation);
}

std::vector<std::string> sources_of(const CalibrateOptions& options) {
  std::vector<std::string> sources = options.traces;
  append_all(sources, options.nccl_tests);
  return sources;
}

CalibrationFit fit_named(const std::string& name) {
  if (name == "constants") return CalibrationFit::constants;
  return name == "both" ? CalibrationFit::both : CalibrationFit::factors;
}

/// The Program that was traced, as the request refers to it.
struct Traced {
  std::optional<AnalyzedProgram> program;
  CalibrationRequest request;
  std::size_t left_out = 0;  ///< steps that were disturbed
};

Expected<void> read_steps(const CalibrateOptions& options, const TransportCapabilities& capabilities,
                          const Output& output, Traced& traced) {
  PPSIM_ASSIGN_OR_RETURN(auto subject, read_subject(options.input, options.costs));
  PPSIM_ASSIGN_OR_RETURN(auto program, default_program(subject));
  note_assumed_communicators(subject, output);
  traced.program.emplace(std::move(program), capabilities);
  const bool is_schedule = std::holds_alternative<Schedule>(subject.ir);
  auto steps = read_measured_steps(options.traces, traced.program->program());
  if (!steps) return tl::unexpected(of_other_costs(steps.error(), is_schedule));
  traced.request.program = &*traced.program;
  traced.request.steps = *std::move(steps);
  if (!options.all_steps) traced.left_out = leave_out_disturbed(traced.request.steps);
  if (subject.costs) traced.request.costs = std::move(subject.costs->tables.costs);
  return {};
}

Expected<void> read_request(const CalibrateOptions& options, const Output& output, Traced& traced) {
  PPSIM_RETURN_IF_ERROR(check_options(options));
  for (const std::string& argument : options.nccl_tests) {
    PPSIM_ASSIGN_OR_RETURN(auto collective, read_collective(argument));
    traced.request.collectives.push_back(std::move(collective));
  }
  PPSIM_ASSIGN_OR_RETURN(auto source, cost_source(options.costs));
  if (source && std::holds_alternative<Workload>(*source)) {
    traced.request.workload = std::get<Workload>(*std::move(source));
    PPSIM_ASSIGN_OR_RETURN(auto recompute, recompute_from_text(options.costs.recompute));
    traced.request.workload->parallelism.recompute = std::move(recompute);
  }
  traced.request.fit = fit_named(options.fit);
  if (options.traces.empty()) return {};
  PPSIM_ASSIGN_OR_RETURN(const auto capabilities,
                         capabilities_of(options.transport, options.costs.parallelism));
  return read_steps(options, capabilities, output, traced);
}

/// Slowdowns of ranks that share a device, and how far off the step is with them: a share, below 0 where the
/// simulated step is too short.
struct Slowed {
  SlowdownFit fit;
  double step_error = 0;
  std::optional<double> other_half;  ///< of those of every other step, on the steps between them
};

/// Fits the slowdowns to some steps and says how far off they are on the mean of others.
Expected<Slowed> slowed(const AnalyzedProgram& program, const std::vector<TimedTrace>& fitted,
                        const std::vector<TimedTrace>& compared, int ranks) {
  const MeasuredRuns runs{program, fitted};
  Slowed found{.fit = fit_slowdowns(std::span(&runs, 1), ranks), .other_half = {}};
  PPSIM_ASSIGN_OR_RETURN(const auto run,
                         simulate_on_devices(program, {found.fit.alone, CostTable()}, found.fit.devices));
  if (!run) return tl::unexpected(to_error(program.program(), run.error()));
  const double measured = mean_step(compared);
  const auto simulated = static_cast<double>(trace_span(*run));
  found.step_error = measured > 0 ? simulated / measured - 1 : 0;
  return found;
}

Expected<Slowed> slowed(const Traced& traced, int ranks) {
  const std::vector<TimedTrace>& steps = traced.request.steps.traces;
  PPSIM_ASSIGN_OR_RETURN(auto found, slowed(*traced.program, steps, steps, ranks));
  if (steps.size() == 1) return found;
  const auto [half, other] = alternate(steps);
  PPSIM_ASSIGN_OR_RETURN(const auto of_half, slowed(*traced.program, half, other, ranks));
  found.other_half = of_half.step_error;
  return found;
}

Json share_json(const std::optional<double>& share) { return share ? Json(100 * *share) : Json(); }

Json calibration_result_json(const CalibrationResult& result, const CalibrateOptions& options) {
  Json groups = Json::array();
  for (const CalibrationGroup& group : result.groups) {
    groups.push_back({{"group", group.name},
                      {"observations", group.observations},
                      {"measured_ns", group.measured_ns},
                      {"error_before_percent", share_json(group.before)},
                      {"error_after_percent", 100 * group.after},
                      {"error_other_half_percent", share_json(group.other_half)}});
  }
  Json factors = Json::array();
  for (const auto& [kind, factor] : result.calibration.factors)
    factors.push_back({{"kind", info(kind).text}, {"factor", factor}});
  Json object = {{"groups", groups}, {"factors", factors}};
  if (const auto& found = result.calibration.constants) {
    object["constants"] = {{"exposed_share", found->exposed_share},
                           {"network_efficiency", found->network_efficiency},
                           {"product_slowdown", found->product_slowdown},
                           {"kernel_time_s", found->kernel_time}};
  }
  if (!result.measured.costs.entries().empty()) object["costs_hash"] = costs_hash(result.measured.costs);
  if (!result.calibration.empty()) object["calibration_hash"] = calibration_hash(result.calibration);
  if (const auto& varied = result.varied) {
    object["varied_step"] = {{"error_percent", 100 * varied->after},
                             {"error_other_half_percent", share_json(varied->other_half)}};
  }
  if (!options.output.empty()) object["file"] = options.output;
  if (!options.costs_out.empty()) object["costs_file"] = options.costs_out;
  return object;
}

std::string error_share_text(const std::optional<double>& share, bool is_signed) {
  if (!share) return "-";
  return is_signed ? signed_percent_text(*share) : percent_text(std::abs(*share));
}

std::string found_text(const Calibration& calibration) {
  std::string text;
  for (const auto& [kind, factor] : calibration.factors)
    text += (text.empty() ? "factors " : ", ") + std::string(info(kind).text) + " " + number_text(factor);
  if (!text.empty()) text += '\n';
  if (const auto& found = calibration.constants) {
    text += "constants exposed_share " + number_text(found->exposed_share) + ", network_efficiency " +
            number_text(found->network_efficiency) + ", product_slowdown " +
            number_text(found->product_slowdown) + ", kernel_time " + number_text(found->kernel_time * 1e6) +
            " us\n";
  }
  return text;
}

std::string next_text(const CalibrateOptions& options) {
  if (!options.output.empty())
    return "Next: --calibration " + options.output + " with --model, of simulate, plan and all others.";
  if (!options.costs_out.empty())
    return "Next: --costs " + options.costs_out + " simulates other orders of these actions.";
  return "Nothing was written: -o FILE keeps a calibration of a model, --costs-out FILE a table of costs.";
}

void print_text(const CalibrationResult& result, const std::optional<Slowed>& slowed,
                const CalibrateOptions& options) {
  TextTable rows = {{"group", "observations", "measured", "before", "after", "other half"}};
  std::vector<CalibrationGroup> groups = result.groups;
  if (result.varied) groups.push_back(*result.varied);
  for (const CalibrationGroup& group : groups) {
    const bool is_step = group.name.starts_with("step");
    rows.push_back({group.name, std::to_string(group.observations),
                    time_text(std::llround(group.measured_ns)), error_share_text(group.before, is_step),
                    error_share_text(group.after, is_step), error_share_text(group.other_half, is_step)});
  }
  if (slowed)
    rows.push_back({"step, slowed", rows.back()[1], rows.back()[2], "-",
                    error_share_text(slowed->step_error, true), error_share_text(slowed->other_half, true)});
  std::cout << table_text(rows) << found_text(result.calibration);
  if (slowed) std::cout << slowdown_fit_text(slowed->fit);
  std::cout << next_text(options) << '\n';
}

Expected<void> write_results(const CalibrateOptions& options, CalibrationResult& result) {
  result.calibration.sources = sources_of(options);
  if (!options.output.empty()) {
    PPSIM_RETURN_IF_ERROR(write_text_file(options.output, to_json(result.calibration)));
  }
  if (options.costs_out.empty()) return {};
  return write_text_file(options.costs_out, to_json(result.measured));
}

Expected<int> run(const CalibrateOptions& options, const Output& output) {
  Traced traced;
  PPSIM_RETURN_IF_ERROR(read_request(options, output, traced));
  PPSIM_ASSIGN_OR_RETURN(auto result, calibrate(traced.request));
  std::optional<Slowed> found;
  if (options.ranks_per_device) {
    PPSIM_ASSIGN_OR_RETURN(found, slowed(traced, *options.ranks_per_device));
    result.measured.costs = found->fit.alone;
  }
  PPSIM_RETURN_IF_ERROR(write_results(options, result));
  if (traced.left_out > 0) {
    const std::size_t all = traced.left_out + traced.request.steps.traces.size();
    output.note(std::to_string(traced.left_out) + " of " + std::to_string(all) +
                " steps left out, whose durations are outliers; --all-steps counts them");
  }
  if (traced.request.steps.computation_alone)
    output.note("the traces have no transfers: what they take is not calibrated, and 0 in a table of costs");
  if (output.json) {
    Json object = calibration_result_json(result, options);
    object["left_out_steps"] = traced.left_out;
    if (found) {
      object["slowdowns"] = slowdown_fit_json(found->fit);
      object["slowdowns"]["step_error_percent"] = 100 * found->step_error;
      object["slowdowns"]["step_error_other_half_percent"] = share_json(found->other_half);
    }
    output.print(object);
  } else {
    print_text(result, found, options);
  }
  return kDone;
}

}  // namespace

void add_calibrate(Command& program) {
  auto options = std::make_shared<CalibrateOptions>();
  Command command = program.add_subcommand(
      "calibrate", "costs from your own traces and nccl-tests, and how far off they were before");
  command.add_option("INPUT", options->input.input, "FILE or NAME that was traced");
  command
      .add_option(
          "--trace", options->traces,
          "a measured step of INPUT, .csv, or the option again for each; or what torch.profiler (.json, "
          "a folder) or nsys (.sqlite) saw of one step, all ranks")
      .one_value_each();
  command
      .add_option(
          "--nccl-tests", options->nccl_tests,
          "what a program of nccl-tests printed, or its JSON; OPERATION=FILE where it does not say which")
      .one_value_each();
  command.add_option("-o,--output", options->output, "calibration of --model to write")
      .check(side_file({".json"}));
  command.add_option("--costs-out", options->costs_out, "table of the measured costs to write, for --costs")
      .check(side_file({".json"}));
  command
      .add_option("--fit", options->fit,
                  "of --model: factors of each kind of action, constants, or both, constants first")
      .show_default()
      .check(one_of({"factors", "constants", "both"}));
  command
      .add_option("--ranks-per-device", options->ranks_per_device,
                  "consecutive ranks that shared a device: finds how much each slows the others down, and "
                  "what an action takes alone, for --costs-out")
      .check(count());
  command.add_flag("--all-steps", options->all_steps,
                   "keeps steps whose durations are outliers; from eight steps on, these are left out");
  add_input_options(command, options->input);
  add_transport_options(command, options->transport);
  add_cost_options(command, options->costs);
  command.runs(run, options);
}

}  // namespace ppsim::cli
