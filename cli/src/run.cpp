#include <cstdlib>
#include <iostream>
#include <sstream>
#include <thread>

#include "command.hpp"
#include "ppsim/core/hash.hpp"
#include "ppsim/core/json.hpp"
#include "ppsim/gpu_backend/backends.hpp"
#include "ppsim/gpu_backend/null_model.hpp"
#include "ppsim/gpu_backend/transformer.hpp"
#include "ppsim/planner/files.hpp"
#include "ppsim/planner/trace_file.hpp"
#include "ppsim/planner/verified_run.hpp"
#include "sbatch.hpp"
#include "several_processes.hpp"

namespace ppsim::cli {
namespace {

struct Options {
  InputOptions input;
  CostOptions costs;
  std::string backend = "cpu", transport = "inproc", certificate, trace, costs_out, transformer,
              arithmetic = "float32", buffers = "rendezvous";
  bool unverified = false, compare = false, emit_sbatch = false, graphs = false, no_profile = false;
  int ranks_per_device = 1;
  int steps = 3;
  std::optional<int> ranks_per_node;
  std::optional<double> deadline_s;
  double time_scale = 1;
};

Expected<TransformerConfig> transformer_of(const Options& options, int stages) {
  TransformerConfig config;
  config.layers = std::max(4, stages);
  config.arithmetic = options.arithmetic == "integer" ? Arithmetic::integer_exact : Arithmetic::float32;
  const std::pair<std::string_view, int TransformerConfig::*> fields[] = {
      {"layers", &TransformerConfig::layers},        {"hidden", &TransformerConfig::hidden},
      {"heads", &TransformerConfig::heads},          {"ffn", &TransformerConfig::ffn},
      {"vocab", &TransformerConfig::vocab},          {"sequence", &TransformerConfig::sequence},
      {"batch", &TransformerConfig::microbatch_size}};
  std::istringstream items(options.transformer);
  for (std::string item; std::getline(items, item, ',');) {
    const std::size_t equals = item.find('=');
    bool found = false;
    for (const auto& [name, field] : fields) {
      if (equals == std::string::npos || item.substr(0, equals) != name) continue;
      found = CLI::detail::lexical_cast(item.substr(equals + 1), config.*field);
    }
    if (!found) {
      return make_error(
          ErrorCode::bad_argument, "--transformer cannot be read",
          {.found = item, .expected = "key=number with layers, hidden, heads, ffn, vocab, sequence, batch"});
    }
  }
  return config;
}

Expected<void> check_cuda_transport(const Options& options) {
  if (options.transport == "nccl" || options.transport == "copy" || options.transport == "inproc") return {};
  return make_error(ErrorCode::bad_argument, "the CUDA backend moves data with NCCL or with copy engines",
                    {.found = options.transport, .expected = "--transport nccl or copy"});
}

/// NCCL has one rank on a device, so that several go by copy engines where nothing else is asked for.
CudaOptions cuda_options(const Options& options) {
  const bool shares = options.ranks_per_device > 1 && options.transport == "inproc";
  return {.transport = shares || options.transport == "copy" ? CudaTransport::copy : CudaTransport::nccl,
          .ranks_per_device = options.ranks_per_device,
          .graphs = options.graphs,
          .profile = !options.no_profile};
}

/// What CUDA and NCCL read when they start: queues of work enough for every stream, and communicators that
/// may run at the same time. What the user has set stays.
void set_cuda_environment() {
  constexpr int kKeep = 0;
  ::setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", kKeep);
  ::setenv("NCCL_LAUNCH_ORDER_IMPLICIT", "1", kKeep);
}

Expected<void> check_backend(const Options& options) {
  std::string names;
  for (const BackendStatus& status : backend_statuses()) {
    names += (names.empty() ? "" : ", ") + status.name;
    if (status.name != options.backend) continue;
    if (!status.available) {
      return make_error(ErrorCode::bad_argument, "the backend cannot run here: " + status.detail,
                        {.found = options.backend, .expected = "a backend that `ppsim doctor` has"});
    }
    if (options.backend == "cuda") return check_cuda_transport(options);
    if (options.transport == "inproc" || options.transport == "mpi") return {};
    return make_error(ErrorCode::bad_argument,
                      "this backend moves data between threads of one process, or between processes by MPI",
                      {.found = options.transport, .expected = "--transport inproc or mpi"});
  }
  return make_error(ErrorCode::bad_argument, "unknown backend",
                    {.found = options.backend, .expected = names});
}

/// What runs: on a CPU a transformer, emulated nothing but the sizes of its tensors.
Expected<std::unique_ptr<StageModel>> model_of(const Options& options, const Subject& subject,
                                               const Pipeline& pipeline) {
  if (options.backend == "emulated") return std::make_unique<NullModel>(subject.costs->tables.sizes);
  const auto config = transformer_of(options, pipeline.stages());
  if (!config) return tl::unexpected(config.error());
  return make_transformer(*config);
}

Expected<Subject> subject_of(const Options& options) {
  auto subject = read_subject(options.input, options.costs);
  if (!subject || options.backend != "emulated") return subject;
  if (!subject->costs) {
    return make_error(ErrorCode::bad_argument,
                      "an emulated run needs costs: --unit, --costs or --model with --cluster");
  }
  auto scaled = scaled_costs(subject->costs->tables.costs, options.time_scale);
  if (!scaled) return tl::unexpected(scaled.error());
  subject->costs->tables.costs = *std::move(scaled);
  return subject;
}

Expected<RunOptions> run_options(const Options& options, const Subject& subject) {
  RunOptions run;
  if (options.backend == "emulated") run.backend = EmulatedOptions{subject.costs->tables.costs};
  if (options.backend == "cuda") run.backend = cuda_options(options);
  run.unverified = options.unverified;
  run.steps = options.steps;
  run.deadline_s = options.deadline_s.value_or(0);
  const auto capabilities = buffers_from_text(options.buffers);
  if (!capabilities) return tl::unexpected(capabilities.error());
  run.capabilities = *capabilities;
  return run;
}

Expected<std::optional<Certificate>> certificate_of(const Options& options) {
  if (options.certificate.empty()) return std::optional<Certificate>();
  const auto text = read_text_file(options.certificate);
  if (!text) return tl::unexpected(text.error());
  return certificate_from_json(*text, options.certificate).map([](Certificate c) {
    return std::optional<Certificate>(std::move(c));
  });
}

Expected<void> write_outputs(const Options& options, const RunView& view) {
  if (!options.trace.empty()) {
    if (auto written = write_trace_file(options.trace, view); !written) return written;
  }
  if (!options.costs_out.empty())
    return write_text_file(options.costs_out, to_json(Tables{view.costs, view.sizes}));
  return {};
}

Bytes largest(const auto& values) {
  Bytes most = 0;
  for (const Bytes value : values) most = std::max(most, value);
  return most;
}

void print_json(const Output& output, const Options& options, const Program& program,
                const VerifiedRun& result) {
  Json object = {{"measured_step_ns", result.measured_step_ns},
                 {"simulated_step_ns", result.simulated_step_ns},
                 {"steps_ns", result.run.step_ns},
                 {"pool_bytes", largest(result.run.pool_bytes)},
                 {"high_water_bytes", largest(result.run.high_water_bytes)},
                 {"proved_bytes", nullptr},
                 {"backend", options.backend},
                 {"transport", options.transport},
                 {"verified", result.certificate.has_value()},
                 {"program_hash", program_hash(program)}};
  if (!result.proved_bytes.empty()) object["proved_bytes"] = largest(result.proved_bytes);
  if (result.max_abs_difference) {
    object["gradients_equal"] = *result.max_abs_difference == 0;
    object["max_abs_difference"] = *result.max_abs_difference;
  }
  for (std::size_t r = 0; r < result.run.pool_bytes.size(); ++r) {
    Json rank = {{"high_water_bytes", result.run.high_water_bytes.items()[r]},
                 {"pool_bytes", result.run.pool_bytes.items()[r]}};
    if (!result.proved_bytes.empty()) rank["proved_bytes"] = result.proved_bytes[r];
    object["per_rank"].push_back(std::move(rank));
  }
  for (std::size_t p = 0; p < result.run.processes.size(); ++p) {
    const ProcessFigures& process = result.run.processes[p];
    object["processes"].push_back({{"process", p},
                                   {"first_rank", process.first_rank.value()},
                                   {"ranks", process.ranks},
                                   {"clock_offset_ns", process.clock.offset_ns},
                                   {"clock_uncertainty_ns", process.clock.uncertainty_ns}});
  }
  output.print(object);
}

/// How far the clocks of several processes could be brought in line.
std::string clocks_text(const std::vector<ProcessFigures>& processes) {
  Nanoseconds most = 0;
  for (const ProcessFigures& process : processes) most = std::max(most, process.clock.uncertainty_ns);
  return std::to_string(processes.size()) + " processes, whose clocks are known to " + time_text(most) + '\n';
}

bool has_given_costs(const Options& options) {
  return options.backend == "emulated" || !options.costs.costs.empty();
}

/// Where the costs of the simulation come from.
std::string costs_text(const Options& options, const VerifiedRun& result) {
  if (has_given_costs(options)) return "the given costs";
  return result.run.step_ns.size() > 1 ? "the costs measured in the steps before it"
                                       : "the costs measured in the same step";
}

void print_text(const Options& options, const Program& program, const VerifiedRun& result) {
  std::vector<std::vector<std::string>> rows = {{"rank", "high water", "proved worst case", "pool"}};
  for (std::size_t r = 0; r < result.run.pool_bytes.size(); ++r) {
    rows.push_back({std::to_string(r), size_text(result.run.high_water_bytes.items()[r]),
                    result.proved_bytes.empty() ? "unverified" : size_text(result.proved_bytes[r]),
                    size_text(result.run.pool_bytes.items()[r])});
  }
  std::cout << "program " << program_hash(program) << ", " << program.size() << " instructions on "
            << program.pipeline().ranks() << " ranks\n"
            << table_text(rows) << "measured step " << time_text(result.measured_step_ns)
            << ", simulated with " << costs_text(options, result) << ' '
            << time_text(result.simulated_step_ns) << '\n';
  if (!result.run.processes.empty()) std::cout << clocks_text(result.run.processes);
  const auto cores = static_cast<int>(std::thread::hardware_concurrency());
  if (options.backend == "cpu" && cores < program.pipeline().ranks()) {
    std::cout << "(the simulation gives every rank a core of its own; here " << program.pipeline().ranks()
              << " ranks share " << cores << ")\n";
  }
  if (result.max_abs_difference) {
    std::cout << "gradients ";
    if (*result.max_abs_difference == 0) {
      std::cout << "equal the unpipelined reference bit by bit\n";
    } else {
      std::cout << "differ from the unpipelined reference by up to " << *result.max_abs_difference << '\n';
    }
  }
}

int print_hang(const Program& program, const VerifiedRun& result, const Output& output) {
  std::string text = "the run hung";
  Json waits = Json::array();
  for (const HangWait& wait : result.run.hang) {
    text += "\n" + hang_text(program, wait);
    waits.push_back(hang_text(program, wait));
  }
  output.note("ppsim: " + text);
  if (output.json) {
    Json error = error_json({ErrorCode::deadlock, text});
    error["waits"] = std::move(waits);
    output.print({{"error", std::move(error)}});
  }
  return kRefuted;
}

int print_sbatch(const Options& options, const Output& output) {
  const auto subject = subject_of(options);
  if (!subject) return report(subject.error(), output);
  const auto program = default_program(*subject);
  if (!program) return report(program.error(), output);
  const auto script = sbatch_script({.name = subject->name,
                                     .ranks = program->pipeline().ranks(),
                                     .ranks_per_node = options.ranks_per_node,
                                     .on_gpus = options.backend == "cuda",
                                     .transport_given = options.transport != "inproc"},
                                    output.arguments);
  if (!script) return report(script.error(), output);
  if (output.json) {
    output.print({{"script", *script}});
  } else {
    std::cout << *script;
  }
  return kDone;
}

Expected<int> run_program(const Options& options, const Output& output, Bootstrap* processes) {
  if (options.backend == "cuda") set_cuda_environment();
  if (auto good = check_backend(options); !good) return tl::unexpected(good.error());
  const auto subject = subject_of(options);
  if (!subject) return tl::unexpected(subject.error());
  const auto program = default_program(*subject);
  if (!program) return tl::unexpected(program.error());
  const auto model = model_of(options, *subject, program->pipeline());
  if (!model) return tl::unexpected(model.error());
  const auto certificate = certificate_of(options);
  if (!certificate) return tl::unexpected(certificate.error());
  auto run = run_options(options, *subject);
  if (!run) return tl::unexpected(run.error());
  if (*certificate) run->certificate = &**certificate;
  run->processes = processes;
  const CostTable* costs = has_given_costs(options) ? subject->cost_table() : nullptr;
  if (costs != nullptr && !options.deadline_s) {
    const auto deadline_s = default_deadline_s(*program, run->capabilities, *costs);
    if (!deadline_s) return tl::unexpected(deadline_s.error());
    run->deadline_s = *deadline_s;
  }

  const VerifiedRunOptions how{.run = *run, .compare = options.compare, .costs = costs};
  const auto result = verify_then_run(*program, **model, how);
  if (!result) return tl::unexpected(result.error());
  if (result->run.outcome == RunOutcome::deadlock) return print_hang(*program, *result, output);
  if (output.silent) return kDone;
  const ExecutionGraph graph = build_execution_graph(*program, run->capabilities);
  const SizeTable sizes = sizes_on(run->backend, **model, program->pipeline());
  const RunView view{*program, graph, result->run.trace(), result->measured, sizes};
  if (auto written = write_outputs(options, view); !written) return tl::unexpected(written.error());
  output.json ? print_json(output, options, *program, *result) : print_text(options, *program, *result);
  return kDone;
}

int run(const Options& options, const Output& output) {
  if (options.emit_sbatch) return print_sbatch(options, output);
  if (options.transport == "mpi") {
    return on_all_processes(output, [&](const Output& own, Bootstrap* processes) {
      return run_program(options, own, processes);
    });
  }
  const Expected<int> code = run_program(options, output, nullptr);
  return code ? *code : report(code.error(), output);
}

}  // namespace

void add_run(CLI::App& app, Selected& selected) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand(
      "run", "execute a verified program: a small transformer, or the times of a cost table");
  command->add_option("INPUT", options->input.input, "FILE or NAME")->required();
  add_parameter_options(*command, options->input);
  add_dialect_option(*command, options->input.dialect);
  command
      ->add_option("--backend", options->backend,
                   "cpu; emulated: every action takes what COSTS say and computes nothing; cuda")
      ->capture_default_str();
  command
      ->add_option("--time-scale", options->time_scale, "an emulated run takes so many times what COSTS say")
      ->check(CLI::PositiveNumber);
  command
      ->add_option(
          "--transport", options->transport,
          "inproc; mpi: the ranks are spread over the processes that mpirun or srun starts; for cuda nccl "
          "(the default there) or copy (copy engines, for several ranks on a device)")
      ->capture_default_str();
  command->add_flag("--emit-sbatch", options->emit_sbatch,
                    "print a Slurm script that runs this, with a process for each rank");
  command->add_option("--ranks-per-node", options->ranks_per_node, "of that script; default: 8, or all")
      ->check(CLI::PositiveNumber);
  command
      ->add_option("--ranks-per-device", options->ranks_per_device,
                   "cuda: so many ranks share a device, each with its part of the multiprocessors")
      ->check(CLI::PositiveNumber);
  command->add_flag("--graphs", options->graphs, "cuda: a step is one CUDA graph per rank");
  command->add_flag("--no-profile", options->no_profile,
                    "cuda: no events per action, and so no trace and no measured costs");
  command->add_option("--buffers", options->buffers, "rendezvous, or messages that a channel buffers")
      ->capture_default_str();
  command->add_option("--transformer", options->transformer,
                      "layers=,hidden=,heads=,ffn=,vocab=,sequence=,batch= of the model that is run");
  command->add_option("--arithmetic", options->arithmetic, "float32 or integer (exact, modulo 2^64)")
      ->capture_default_str()
      ->check(CLI::IsMember({"float32", "integer"}));
  auto* certificate = command->add_option("--certificate", options->certificate,
                                          "proof to rely on; without one the program is verified first");
  command
      ->add_flag("--unverified", options->unverified, "run without a proof; a hang is detected and reported")
      ->excludes(certificate);
  command
      ->add_option("--steps", options->steps,
                   "training steps; the costs of all but the last predict the last")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000000));
  command
      ->add_option(
          "--deadline", options->deadline_s,
          "seconds that a step may take, 0 for any; default: 10 x what COSTS say and 30 s, any without")
      ->check(CLI::NonNegativeNumber);
  command->add_flag("--compare", options->compare, "compare gradients with the unpipelined reference");
  command
      ->add_option("--trace", options->trace,
                   "timed trace of the last step: .csv, .json (Perfetto, Chrome) or .pftrace")
      ->check(trace_path());
  command->add_option("--costs-out", options->costs_out, "measured costs and sizes, as --costs reads them")
      ->check(not_stdout());
  add_cost_options(*command, options->costs);
  command->callback(
      [&selected, options] { selected = [options](const Output& output) { return run(*options, output); }; });
}

}  // namespace ppsim::cli
