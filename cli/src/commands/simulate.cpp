#include <algorithm>
#include <future>
#include <iostream>

#include "command.hpp"
#include "command_line/shell_words.hpp"
#include "command_line/validators.hpp"
#include "heap.hpp"
#include "input/communicators.hpp"
#include "options/slowdown_options.hpp"
#include "options/transport_choice.hpp"
#include "output/metrics_json.hpp"
#include "ppsim/planner/effects/slowed_step.hpp"
#include "ppsim/planner/evaluate.hpp"
#include "ppsim/planner/files.hpp"
#include "ppsim/planner/kineto.hpp"
#include "ppsim/planner/memory/allocator_peaks.hpp"
#include "ppsim/planner/memory/peak_contents.hpp"
#include "ppsim/planner/report_file.hpp"
#include "ppsim/planner/trace_file.hpp"
#include "ppsim/simulator/metrics/kind_times.hpp"

namespace ppsim::cli {
namespace {

struct SimulateOptions {
  InputOptions input;
  CostOptions costs;
  std::string trace, report, policy;
  std::vector<std::string> compared;
  TransportChoice transport;
  SlowdownOptions slowdowns;
};

/// The Program that was simulated, and the communicators that it was given; none: those of a native Program.
struct Simulated {
  SimulatedStep step;
  std::optional<CommunicatorPolicy> communicators;
  bool is_schedule = false;  ///< that was lowered
};

/// Those that were asked for; with --for those of the release.
Expected<std::optional<CommunicatorPolicy>> communicators_of(const SimulateOptions& options) {
  auto policy = policy_of(options.policy);
  if (!policy || !options.input.loaded_by) return policy;
  PPSIM_ASSIGN_OR_RETURN(const auto usable, communicators_for(*options.input.loaded_by, *policy));
  return std::optional<CommunicatorPolicy>(usable);
}

Expected<Simulated> simulated(const SimulateOptions& options, const TransportCapabilities& capabilities,
                              const Output& output) {
  PPSIM_ASSIGN_OR_RETURN(const auto policy, communicators_of(options));
  const CommunicatorPolicy communicators = policy.value_or(CommunicatorPolicy::per_edge);
  auto subject = read_subject(options.input, options.costs, communicators);
  PPSIM_RETURN_IF_ERROR(subject);
  if (!subject->costs) return tl::unexpected(needs_costs("simulate"));
  const std::optional<Target>& target = options.input.loaded_by;
  Stopwatch watch;
  std::future<void> pages = ask_for_pages_ahead(subject->ir);
  PPSIM_ASSIGN_OR_RETURN(
      auto program, target ? program_for(*target, *subject, communicators) : program_of(*subject, policy));
  subject->phases.lowering = watch.lap();
  if (!policy) note_assumed_communicators(*subject, output);
  const bool is_schedule = std::holds_alternative<Schedule>(subject->ir);
  pages = {};
  static_cast<void>(Ir(std::move(subject->ir)));  // frees it: a large one is hundreds of megabytes
  give_back_free_memory(program);
  PPSIM_ASSIGN_OR_RETURN(
      auto step, evaluate(subject->name, std::move(program), *std::move(subject->costs), capabilities));
  PPSIM_RETURN_IF_ERROR(slow_down(step, devices_of(options.slowdowns, step.program().pipeline().ranks())));
  if (options.costs.unit.empty())
    step.communicator_bytes = communicator_bytes_of(options.transport, step.program());
  step.phases.reading = subject->phases.reading;
  step.phases.generation = subject->phases.generation;
  step.phases.costs = subject->phases.costs;
  step.phases.lowering = subject->phases.lowering;
  Simulated result{std::move(step), std::nullopt, is_schedule};
  if (!subject->native_program) result.communicators = communicators;
  return result;
}

std::string advice(const SimulatedStep& step) {
  if (!step.fits()) {
    const Bytes beside = step.max_communicator_bytes();
    return "It does not fit: " + size_text(step.peak_bytes()) +
           (beside > 0 ? " and communicators of " + size_text(beside) : "") + " of " +
           size_text(*step.costs.memory_limit) +
           ". Try a schedule with fewer live microbatches, --recompute adaptive, or more ranks.";
  }
  const BubbleBreakdown bubble = step.metrics.bubble();
  const Nanoseconds ramp = bubble.warmup + bubble.cooldown;
  if (bubble.total() == 0) return "No rank is ever idle.";
  if (bubble.exposed_communication * 2 > bubble.total())
    return "Most idle time waits for transfers: a faster network or fewer chunks would help.";
  if (bubble.imbalance * 2 > bubble.total())
    return "Most idle time is imbalance between ranks: move layers off the busiest stage.";
  const auto is_gapless = [](const RankMetrics& rank) { return rank.idle() == 0; };
  if (std::ranges::all_of(step.metrics.ranks.items(), is_gapless))
    return "No rank is idle between its first and its last action: only the stagger of the ranks is left.";
  if (ramp * 2 > bubble.total())
    return "Most idle time is warm-up and cool-down: more microbatches, interleaving or a zero-bubble "
           "schedule would help.";
  return "Idle time is spread over the steady state: compare schedules with `ppsim compare`.";
}

/// The step and, where it is longer, its pipeline.
std::string step_time_text(const SimulatedStep& step) {
  const Nanoseconds pipeline = step.metrics.times.makespan;
  if (step.step() == pipeline) return "step " + time_text(pipeline);
  return "step " + time_text(step.step()) + " (pipeline " + time_text(pipeline) +
         ", then gradients and optimizer)";
}

/// The memory of the fullest rank at its peak, by kind of tensor, and as PyTorch's allocator reserves it.
std::string peak_text(const SimulatedStep& step) {
  RankId most(0);
  for (const RankId rank : step.program().pipeline().rank_ids()) {
    if (step.metrics.ranks[rank].peak_bytes > step.metrics.ranks[most].peak_bytes) most = rank;
  }
  std::string text = "At its peak rank " + std::to_string(most.value()) + " has ";
  const auto contents = peak_contents(step);
  for (const KindBytes& one : contents[most]) {
    if (&one != contents[most].data()) text += ", ";
    text += size_text(one.bytes) + " of " + std::string(info(one.kind).name);
  }
  const AllocatorPeak allocator = allocator_peaks(step)[most];
  return text + ".\nPyTorch's allocator reserves " + size_text(allocator.reserved) + " there, of which " +
         size_text(allocator.allocated) + " are allocated.\n";
}

void print_text(const SimulatedStep& step) {
  TextTable rows = {{"rank", "busy", "idle in span", "bubble", "peak memory", "live activations", "sent"}};
  for (int r = 0; r < step.program().pipeline().ranks(); ++r) {
    const RankMetrics& rank = step.metrics.ranks[RankId(r)];
    rows.push_back({std::to_string(r), time_text(rank.times.busy), time_text(rank.idle()),
                    percent_text(step.metrics.bubble_fraction(RankId(r))), size_text(step, rank.peak_bytes),
                    std::to_string(rank.peak_live_activations), size_text(step.sent_bytes(RankId(r)))});
  }
  const StepTimes& times = step.metrics.times;
  std::cout << simulated_line(step.capabilities()) << '\n'
            << step.name << ": " << step.program().pipeline() << '\n'
            << step_time_text(step) << ", longest rank " << time_text(rank_span(times)) << ", ideal "
            << time_text(ideal_time(times)) << '\n'
            << "bubble " << percent_text(bubble_fraction(times))
            << (step.step() == times.makespan ? " of the step, " : " of the pipeline, ")
            << percent_text(bubble_fraction_span(times)) << " of the longest rank\n";
  if (step.costs.notes) std::cout << step.costs.notes->workload << '\n';
  if (step.costs.layout) std::cout << "layout " << *step.costs.layout << '\n';
  if (!step.costs.slice_lengths.empty())
    std::cout << "slices of " << lengths_text(step.costs.slice_lengths) << " tokens\n";
  if (step.costs.recompute != StageRecompute()) std::cout << "recompute " << step.costs.recompute << '\n';
  if (step.costs.tokens_per_step) {
    std::cout << static_cast<long long>(tokens_per_second(step.work(), step.step())) << " tokens/s, "
              << percent_text(model_flops_utilization(step.work(), step.step())) << " of peak FLOP/s\n";
  }
  std::cout << free_kinds_text(free_kinds(step.costs.tables.costs, step.program())) << table_text(rows);
  if (step.costs.notes) std::cout << peak_text(step);
  if (const Bytes most = step.max_communicator_bytes(); most > 0 && step.costs.has_sizes)
    std::cout << "Communicators take up to " << size_text(most) << " of a rank beside its peak.\n";
  std::cout << advice(step) << '\n';
  std::cout << notes_text(step);
}

/// The same Program as it was measured.
struct Measured {
  TimedTrace trace;
  std::vector<KindTimes> kinds;
  std::optional<KinetoStep> kineto = {};  ///< where it was read from traces of PyTorch

  [[nodiscard]] Nanoseconds step() const { return trace_span(trace); }
};

/// A trace of ours; all else is of PyTorch.
bool is_own_trace(const std::vector<std::string>& paths) {
  return paths.size() == 1 && (paths[0] == "-" || suffix_of(paths[0]) == ".csv");
}

Expected<KinetoStep> read_kineto_step(const std::vector<std::string>& paths, const Program& program) {
  PPSIM_ASSIGN_OR_RETURN(const auto files, kineto_files(paths));
  std::vector<KinetoRanges> traces;
  for (const std::string& file : files) {
    PPSIM_ASSIGN_OR_RETURN(const auto text, read_text_file(file));
    PPSIM_ASSIGN_OR_RETURN(auto trace, read_kineto(text, file));
    traces.push_back(std::move(trace));
  }
  return step_of_kineto(traces, program);
}

Expected<std::optional<Measured>> measured_of(const SimulateOptions& options, const Simulated& outcome) {
  const SimulatedStep& step = outcome.step;
  if (options.compared.empty()) return std::optional<Measured>();
  if (!is_own_trace(options.compared)) {
    PPSIM_ASSIGN_OR_RETURN(auto kineto, read_kineto_step(options.compared, step.program()));
    auto kinds = compare_kinds(step.program(), kineto.trace, step.trace);
    return Measured{kineto.trace, std::move(kinds), std::move(kineto)};
  }
  auto trace = read_trace_file(options.compared.front(), step.program());
  if (!trace) return tl::unexpected(of_other_costs(trace.error(), outcome.is_schedule));
  auto kinds = compare_kinds(step.program(), *trace, step.trace);
  return Measured{*std::move(trace), std::move(kinds)};
}

/// With a measured run both are drawn. Errors: the first file that cannot be written.
Expected<void> write_outputs(const SimulateOptions& options, const SimulatedStep& step,
                             const std::optional<Measured>& measured, const Output& output) {
  const std::string command = command_words(output.arguments);
  std::vector<TracedRun> runs = {{measured ? "simulated" : "", step.timed_run()}};
  if (measured) {
    const TimedRun run = step.timed_run();
    runs.push_back({"measured", {run.analyzed, measured->trace, run.costs, run.sizes, true}});
  }
  if (!options.trace.empty()) PPSIM_RETURN_IF_ERROR(write_trace_file(options.trace, runs));
  if (options.report.empty()) return {};
  return measured ? write_run_report(options.report, runs[1].run, step, command)
                  : write_report_file(options.report, {&step, 1}, {}, command);
}

Json clocks_json(const KinetoStep& step) {
  Json clocks = Json::array();
  for (std::size_t r = 0; r < step.clocks.size(); ++r) {
    const RankClock& clock = step.clocks.items()[r];
    Json item = {{"rank", r}, {"offset_ns", clock.offset}};
    if (clock.error) item["error_ns"] = *clock.error;
    clocks.push_back(item);
  }
  return clocks;
}

std::string clocks_text(const KinetoStep& step) {
  std::string text = "Transfers and collectives are not compared: their ranges are those of a launch.\n";
  if (step.clocks.size() == 1) return text;
  text += step.shared_clock ? "Clocks are as recorded, which no message contradicts; it would show from"
                            : "Clocks are aligned with that of rank 0 by the messages:";
  std::string separator = " ";
  for (std::size_t r = 1; r < step.clocks.size(); ++r) {
    const RankClock& clock = step.clocks.items()[r];
    const std::string error = clock.error ? time_text(*clock.error) : "any time, as messages go one way";
    const std::string sign = clock.offset < 0 ? "-" : "+";
    text += separator + "rank " + std::to_string(r);
    text +=
        step.shared_clock ? " " + error : " by " + sign + time_text(std::abs(clock.offset)) + " +- " + error;
    separator = ", ";
  }
  return text + ".\n";
}

Json measured_json(const Measured& measured, Nanoseconds simulated_pipeline) {
  // A trace has the instructions of a Program, and so the pipeline: the older keys call it the step.
  Json object = {{"measured_pipeline_ns", measured.step()},
                 {"simulated_pipeline_ns", simulated_pipeline},
                 {"measured_step_ns", measured.step()},
                 {"simulated_step_ns", simulated_pipeline},
                 {"kinds", kinds_json(measured.kinds)}};
  if (measured.kineto) {
    object["clocks"] = clocks_json(*measured.kineto);
    object["clocks_as_recorded"] = measured.kineto->shared_clock;
  }
  return object;
}

std::string measured_text(const Measured& measured, Nanoseconds simulated_pipeline) {
  TextTable rows = {{"kind", "count", "measured", "simulated", "difference"}};
  for (const KindTimes& kind : measured.kinds) {
    rows.push_back({std::string(info(kind.kind).text), std::to_string(kind.count), time_text(kind.measured),
                    time_text(kind.simulated), difference_text(kind.measured, kind.simulated)});
  }
  rows.push_back({"pipeline", "1", time_text(measured.step()), time_text(simulated_pipeline),
                  difference_text(measured.step(), simulated_pipeline)});
  if (measured.kineto) return table_text(rows) + clocks_text(*measured.kineto);
  return table_text(rows) +
         "Transfers and collectives count from their start, waiting for the other end included.\n";
}

Json simulated_json(const Simulated& outcome, const std::optional<Measured>& measured) {
  Stopwatch watch;
  Json object = evaluation_json(outcome.step);
  if (outcome.communicators) object["communicators"] = policy_name(*outcome.communicators);
  if (measured) object["compared"] = measured_json(*measured, outcome.step.metrics.times.makespan);
  PhaseTimes phases = outcome.step.phases;
  phases.output = watch.lap();
  object["phase_ns"] = phases_json(phases);
  return object;
}

Expected<int> run(SimulateOptions options, const Output& output) {
  PPSIM_RETURN_IF_ERROR(check_slowdowns(options.slowdowns));
  PPSIM_ASSIGN_OR_RETURN(const auto target, target_of(options.input.target));
  options.input.loaded_by = target;
  PPSIM_RETURN_IF_ERROR(choose_target(options.transport, options.input.target));
  PPSIM_ASSIGN_OR_RETURN(const auto capabilities,
                         capabilities_of(options.transport, options.costs.parallelism));
  const auto outcome = simulated(options, capabilities, output);
  if (!outcome) return report_on(capabilities, outcome.error(), output);
  const SimulatedStep* step = &outcome->step;
  PPSIM_ASSIGN_OR_RETURN(const auto measured, measured_of(options, *outcome));
  const Nanoseconds makespan = step->metrics.times.makespan;
  PPSIM_RETURN_IF_ERROR(write_outputs(options, *step, measured, output));
  const int code = step->fits() ? kDone : kDoesNotFit;
  if (output.json) {
    Json object = simulated_json(*outcome, measured);
    if (options.slowdowns.any()) object["slowdowns"] = slowdowns_json(options.slowdowns);
    output.print(object);
    return code;
  }
  print_text(*step);
  if (measured) std::cout << measured_text(*measured, makespan);
  return code;
}

}  // namespace

void add_simulate(Command& program) {
  auto options = std::make_shared<SimulateOptions>();
  Command command =
      program.add_subcommand("simulate", "what one step costs: time, bubble, memory, communication");
  command.add_option("INPUT", options->input.input, "FILE or NAME").required();
  add_input_options(command, options->input);
  command.add_option("--communicators", options->policy,
                     "of a schedule or a CSV: per-rank, per-pair, per-edge (the default) or per-stage-edge");
  add_target_option(command, options->input.target);
  add_transport_options(command, options->transport);
  add_slowdown_options(command, options->slowdowns);
  command
      .add_option("--trace", options->trace,
                  "timed trace: .csv, .json (Perfetto, Chrome) or .pftrace; "
                  "the latter two with the run of --compare-trace, too")
      .check(trace_file());
  command
      .add_option(
          "--compare-trace", options->compared,
          "a run of this program: what --trace X.csv wrote, or traces of PyTorch's profiler, one a rank "
          "(a folder, or the option again): a table by kind of action, and --report draws it over the "
          "simulated step")
      .one_value_each();
  command.add_option("--report", options->report, "self-contained HTML page")
      .check(side_file({".html", ".htm"}));
  add_cost_options(command, options->costs);
  command.runs([options](const Output& output) { return run(*options, output); });
}

}  // namespace ppsim::cli
