#include <iostream>
#include <optional>
#include <vector>

#include "command_line/shell_words.hpp"
#include "command_line/validators.hpp"
#include "input/communicators.hpp"
#include "options/call_limits.hpp"
#include "options/transport_choice.hpp"
#include "ppsim/core/io/json.hpp"
#include "ppsim/planner/files.hpp"
#include "ppsim/planner/report_file.hpp"
#include "ppsim/planner/trace_file.hpp"
#include "ppsim/planner/verified_run.hpp"
#include "processes/several_processes.hpp"
#include "run_output.hpp"
#include "run_preparation.hpp"
#include "sbatch.hpp"

namespace ppsim::cli {
namespace {

/// Writes all files that can be written. Errors: the first.
Expected<void> write_outputs(const RunCommandOptions& options, const TimedRun& measured,
                             const VerifiedRun& result, const Output& output) {
  const std::string command = command_words(output.arguments);
  const TimedRun simulated{measured.analyzed, result.simulated, measured.costs, measured.sizes};
  Expected<void> all;
  const auto note = [&all](Expected<void> written) {
    if (all && !written) all = std::move(written);
  };
  const std::vector<TracedRun> runs = {{"measured", measured}, {"simulated", simulated}};
  if (!options.trace.empty()) note(write_trace_file(options.trace, runs));
  if (!options.traces.empty())
    note(write_step_traces(options.traces, measured.program, result.run.traces, result.run.step_ns.size()));
  if (!options.report.empty()) note(write_run_report(options.report, measured, result.simulated, command));
  if (options.costs_out.empty()) return all;
  Tables tables = result.measured;
  tables.sizes = measured.sizes;
  note(write_text_file(options.costs_out, to_json(tables)));
  return all;
}

/// Of bf16 and fp8 the CPU has no gradients to compare with.
bool has_reference(const RunCommandOptions& options) {
  return options.model.arithmetic != "bf16" && options.model.arithmetic != "fp8";
}

/// The Program that ran, and the device.
struct Ran {
  const AnalyzedProgram& analyzed;
  SizeTable sizes;
  int replicas = 1;
  std::string kernels = {};
};

int report_run(const RunCommandOptions& options, const Ran& ran, const VerifiedRun& result,
               const Output& output) {
  const int code = result.gradients == GradientVerdict::wrong ? kRefuted : kDone;
  if (output.silent) return code;
  const TimedRun view{ran.analyzed, result.compared_trace(), result.costs, ran.sizes, true};
  RunReport summary{options.device.backend, options.device.transport, ran.analyzed.program(), result,
                    has_given_costs(options)};
  summary.replicas = ran.replicas;
  summary.seed = options.disturbances.seed;
  summary.kernels = ran.kernels;
  summary.exact = options.model.arithmetic == "integer";
  std::optional<RunComparison> comparison;
  if (options.compare) summary.comparison = &comparison.emplace(compare_run(ran.analyzed, result));
  const auto written =
      write_outputs(options, view, result, output);  // before a reader of stdout may end this
  if (!written) std::cerr << "ppsim: " << written.error() << '\n';
  if (!output.json) print_run(summary);
  if (output.json) {
    Json object = run_json(summary);
    if (!written) object["error"] = error_json(written.error());
    output.print(object);
  }
  return written ? code : exit_code(written.error().code);
}

/// Refuses the options that a process of a job cannot have.
Expected<void> check_batch(const RunCommandOptions& options) {
  for (const auto& [name, file] :
       {std::pair<const char*, const std::string&>("the input", options.input.input),
        {"--costs", options.costs.costs},
        {"--certificate", options.certificate}}) {
    if (file != "-") continue;
    return make_error(ErrorCode::bad_argument, "a batch job has no standard input",
                      {.found = std::string(name) + " -", .expected = "a file"});
  }
  if (!options.transport_given || options.device.backend == "cuda" || options.device.transport == "mpi")
    return {};
  return make_error(ErrorCode::bad_argument, "the job has a process for each rank",
                    {.found = "--transport " + options.device.transport, .expected = "--transport mpi"});
}

Expected<int> print_sbatch(const RunCommandOptions& options, const Output& output) {
  PPSIM_RETURN_IF_ERROR(check_batch(options));
  PPSIM_RETURN_IF_ERROR(check_algorithms(options.device));
  PPSIM_ASSIGN_OR_RETURN(const auto prepared, prepare(options));
  PPSIM_RETURN_IF_ERROR(
      check_backend_of(options.device, *prepared.model, prepared.analyzed.program().pipeline()));
  PPSIM_ASSIGN_OR_RETURN(
      const auto script,
      sbatch_script({.name = prepared.subject.name,
                     .ranks = prepared.analyzed.program().pipeline().ranks(),
                     .ranks_per_node = options.ranks_per_node,
                     .ranks_per_gpu = options.device.ranks_per_device,
                     .on_gpus = options.device.backend == "cuda",
                     .one_process = options.device.backend == "cuda" && !is_by_nccl(options.device),
                     .transport_given = options.transport_given},
                    output.arguments));
  if (output.json) {
    output.print({{"script", script}});
  } else {
    std::cout << script;
  }
  return kDone;
}

Expected<int> run_prepared(const RunCommandOptions& options, const Output& output, Bootstrap* processes) {
  std::vector<std::string> outputs;
  if (!output.silent) {
    outputs = {options.trace, options.report, options.costs_out};
    if (!options.traces.empty()) PPSIM_RETURN_IF_ERROR(check_trace_folder(options.traces));
  }
  PPSIM_RETURN_IF_ERROR(check_outputs(outputs));
  PPSIM_ASSIGN_OR_RETURN(auto prepared, prepare(options));
  note_assumed_communicators(prepared.subject, output);
  const Pipeline& pipeline = prepared.analyzed.program().pipeline();
  RunOptions& run = prepared.run;
  if (prepared.certificate) run.certificate = &*prepared.certificate;
  run.certificate_file = options.certificate;
  run.processes = processes;
  run.when_late = [&output](const Error& late) { end_late([&] { return report(late, output); }); };
  run.gradients = options.compare && options.device.backend != "emulated";
  PPSIM_ASSIGN_OR_RETURN(auto algorithms, RunAlgorithms::open(options.device, !output.silent));
  algorithms.give_to(run);
  const StageModel& model = *prepared.model;
  const VerifiedRunOptions how{.run = run,
                               .compare = run.gradients && has_reference(options),
                               .costs = has_given_costs(options) ? prepared.subject.cost_table() : nullptr,
                               .disturbed = prepared.disturbed ? &*prepared.disturbed : nullptr};
  const auto result = verify_then_run(prepared.analyzed, model, how);
  const auto kept = algorithms.keep();  // of a run that fails, too
  if (!result && processes != nullptr) return tl::unexpected(result.error());
  if (!result) return report_on(run.capabilities, result.error(), output);
  if (result->run.outcome == RunOutcome::deadlock) return print_hang(*result, output);
  PPSIM_RETURN_IF_ERROR(kept);
  return report_run(options,
                    {prepared.analyzed, sizes_on(run.backend, model, pipeline), prepared.subject.replicas,
                     algorithms.added_to(kernels_text(options.device, model, pipeline))},
                    *result, output);
}

/// Checks the inputs of a run that do not depend on the machine.
Expected<void> check_inputs(const RunCommandOptions& options) {
  PPSIM_RETURN_IF_ERROR(check_outputs({options.trace, options.report, options.costs_out}));
  PPSIM_RETURN_IF_ERROR(check_algorithms(options.device));
  return prepare(options).map([](const Prepared&) {});
}

Expected<int> run(const RunCommandOptions& options, const Output& output) {
  PPSIM_RETURN_IF_ERROR(check_run_options(options));
  if (options.emit_sbatch) return print_sbatch(options, output);
  const auto on_each = [&](const Output& own, Bootstrap* processes) {
    return run_prepared(options, own, processes);
  };
  if (options.device.transport == "mpi") return on_mpi_processes(output, on_each);
  // Checked before processes meet, so that one that lacks a library can report it alone. Bad input is an
  // error on any machine.
  if (const auto good = open_backend(options.device); !good) {
    const auto inputs = check_inputs(options);
    return tl::unexpected(inputs ? good.error() : inputs.error());
  }
  if (options.device.backend == "cuda")
    return on_launched_processes(output, !is_by_nccl(options.device), on_each);
  PPSIM_RETURN_IF_ERROR(check_alone("--transport mpi, or a start without a launcher"));
  return run_prepared(options, output, nullptr);
}

/// The backend, and its processes.
void add_backend_options(Command& command, RunCommandOptions& options) {
  command
      .add_option("--backend", options.device.backend,
                  "cpu; emulated: every action takes what COSTS say and computes nothing; cuda. With "
                  "jitter (--vary, --slow-rank, ...) actions on the CPU take what COSTS say, too")
      .show_default();
  command
      .add_option("--time-scale", options.time_scale,
                  "takes so many times what COSTS say, emulated or with jitter (1)")
      .check(positive());
  command
      .add_option("--transport", options.device.transport,
                  "inproc (or in-process); mpi: the ranks are spread over the processes that mpirun or srun "
                  "starts; for cuda nccl "
                  "(the default there, in one process or in those of mpirun, torchrun or srun) or copy (copy "
                  "engines within a host, likewise, and for several ranks on a device)")
      .show_default();
  const Option script = command.add_flag("--emit-sbatch", options.emit_sbatch,
                                         "print a Slurm script that runs this, with a process for each rank");
  command.add_option("--ranks-per-node", options.ranks_per_node, "of that script; default: 8, or all")
      .needs(script)
      .check(count());
  add_gpu_options(command, options.device);
  command.add_flag("--no-profile", options.device.no_profile,
                   "cuda: no events per action, and so no trace and no measured costs");
  add_buffer_option(command, options.device);
}

/// Adds the options that report the times of a step.
void add_comparison_options(Command& command, RunCommandOptions& options) {
  command.add_flag(
      "--compare", options.compare,
      "measured against simulated by kind of action, gradients against the unpipelined reference where the "
      "CPU has the arithmetic");
  command
      .add_option(
          "--trace", options.trace,
          "trace of one step, measured and simulated: .json (Perfetto, Chrome), .pftrace; .csv has the "
          "measured one")
      .check(trace_file());
  command.add_option("--traces", options.traces,
                     "folder for a .csv of every step but the first, of the newest 100, for calibrate");
  command
      .add_option("--report", options.report,
                  "self-contained HTML page, the measured step over the simulated")
      .check(side_file({".html", ".htm"}));
  command
      .add_option("--costs-out", options.costs_out,
                  "measured costs with their quartiles, and sizes, as --costs reads them")
      .check(side_file({".json"}));
  for (const char* timed : {"--compare", "--trace", "--traces", "--report", "--costs-out"})
    command.option(timed).excludes(command.option("--no-profile"));
}

}  // namespace

void add_run(Command& program) {
  auto options = std::make_shared<RunCommandOptions>();
  Command command = program.add_subcommand(
      "run", "execute a verified program: a small transformer, or the times of a cost table");
  command.add_option("INPUT", options->input.input, "FILE or NAME").required();
  add_parameter_options(command, options->input);
  add_offload_option(command, options->input);
  add_replicas_option(command, options->input);
  add_send_done_option(command, options->input);
  add_dialect_option(command, options->input.dialect);
  add_backend_options(command, *options);
  add_disturbance_options(command, options->disturbances);
  add_model_options(command, options->model);
  command.add_option("--with", options->extras,
                     "load,unshard,reduce-grad,opt,clip: actions that lowering adds to a schedule; with "
                     "reduce-grad-each-microbatch gradients of tied weights are summed for every microbatch");
  const Option certificate = command.add_option(
      "--certificate", options->certificate, "proof to rely on; without one the program is verified first");
  command
      .add_flag("--unverified", options->unverified,
                "run without a proof what is at least well-formed; a hang is detected and reported")
      .excludes(certificate);
  command
      .add_option("--steps", options->steps,
                  "steps; without given costs one predicts the next, in pairs after the first")
      .show_default()
      .check(whole(1, 1000000));
  command
      .add_option(
          "--deadline", options->deadline_s,
          "seconds that a step may take, 0 for any; default: 10 x what COSTS say of this device and 30 s; "
          "without them 600 s for the first step, then 10 x what that one took and 30 s")
      .check(not_negative());
  add_comparison_options(command, *options);
  add_cost_options(command, options->costs);
  command.runs([options, command](const Output& output) {
    options->transport_given = command.has_been_given("--transport");
    if (options->device.transport == "in-process") options->device.transport = "inproc";  // its other name
    options->seed_given = command.has_been_given("--seed");
    for (const char* option : {"--learning-rate", "--optimizer"})
      if (command.has_been_given(option)) options->of_optimizer = option;
    return run(*options, output);
  });
}

}  // namespace ppsim::cli
