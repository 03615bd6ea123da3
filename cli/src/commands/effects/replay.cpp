#include <algorithm>
#include <cmath>
#include <iostream>
#include <numeric>

#include "command_line/validators.hpp"
#include "commands/effects/effects.hpp"
#include "input/communicators.hpp"
#include "options/transport_choice.hpp"
#include "ppsim/core/ir/hash.hpp"
#include "ppsim/core/ir/padding.hpp"
#include "ppsim/core/text/as_text.hpp"
#include "ppsim/gpu_backend/executor/measured_costs.hpp"
#include "ppsim/planner/calibration/calibrate.hpp"
#include "ppsim/planner/effects/replay.hpp"
#include "ppsim/planner/trace_file.hpp"
#include "ppsim/simulator/metrics/kind_times.hpp"
#include "ppsim/simulator/metrics/metrics.hpp"

namespace ppsim::cli {
namespace {

struct ReplayOptions {
  InputOptions input;
  CostOptions costs;
  TransportChoice transport;
  std::vector<std::string> traces, changes;
  std::string other, output;
};

/// "rank:2=1.3".
Expected<ReplayChange> change_of(const std::string& text) {
  constexpr const char* kExpected = "COSTS=FACTOR, such as rank:2=1.3, link:0-1=2 or F=0.9";
  const std::size_t equals = text.find('=');
  ReplayChange change;
  if (equals == std::string::npos || !read_number(text.substr(equals + 1), change.factor))
    return make_error(ErrorCode::bad_argument, "--change has no factor",
                      {.found = text, .expected = kExpected});
  auto group = cost_group_from_text(text.substr(0, equals));
  if (!group) {
    Error error = group.error();
    error.message = "--change: " + error.message;
    return tl::unexpected(std::move(error));
  }
  change.group = *group;
  return change;
}

struct ReplayedStep {
  Nanoseconds measured = 0;
  Nanoseconds replayed = 0;
};

/// The first measured step, with its replay and those of all steps.
struct Outcome {
  AnalyzedProgram measured;
  TimedTrace trace;
  ReplayCosts costs;
  std::string name;
  AnalyzedProgram changed;  ///< the same Program, or the other order
  std::string changed_name;
  TimedTrace replay;
  bool computation_alone = false;
  std::vector<ReplayedStep> steps;

  [[nodiscard]] Nanoseconds measured_step() const { return trace_span(trace); }
  [[nodiscard]] Nanoseconds unchanged_step() const { return trace_span(replayed(measured, costs)); }
  [[nodiscard]] Nanoseconds step() const { return trace_span(replay); }
};

/// The costs that another schedule is lowered for: means of the measured ones.
CostSource measured_source(const AnalyzedProgram& analyzed, const TimedTrace& trace) {
  return Tables{.costs = mean_costs(measured_durations(analyzed, {&trace, 1})), .sizes = {}};
}

/// The Program of --as, which recomputes what the measured one does.
Expected<Program> other_program(const ReplayOptions& options, const StageRecompute& recompute,
                                const Outcome& outcome, std::string& name) {
  InputOptions input = options.input;
  input.input = options.other;
  if (names_file(input.input)) {
    input.parameters = {};
    input.drop_parameters();
  }
  CostOptions costs;
  costs.instead = measured_source(outcome.measured, outcome.trace);
  if (!names_file(input.input) && recompute.any(Recompute::full)) costs.recompute = as_text(recompute);
  PPSIM_ASSIGN_OR_RETURN(const auto subject, read_subject(input, costs));
  name = subject.name;
  return default_program(subject);
}

Expected<void> check_same_shape(const Program& measured, const Program& other) {
  if (measured.pipeline().ranks() == other.pipeline().ranks()) return {};
  return make_error(ErrorCode::bad_argument, "--as has another number of ranks",
                    {.found = std::to_string(other.pipeline().ranks()),
                     .expected = std::to_string(measured.pipeline().ranks()) + ", as the trace"});
}

/// Replays every step, and keeps the first one.
Expected<void> replay_steps(const std::vector<TimedTrace>& traces, const std::vector<ReplayChange>& changes,
                            const AnalyzedProgram* other, Outcome& outcome) {
  for (const TimedTrace& trace : traces) {
    const ReplayCosts costs = replay_costs(outcome.measured, trace);
    PPSIM_ASSIGN_OR_RETURN(auto replay, replay_changed({outcome.measured, costs}, other, changes));
    outcome.steps.push_back({trace_span(trace), trace_span(replay)});
    if (outcome.steps.size() == 1) outcome.replay = std::move(replay);
  }
  return {};
}

Expected<Outcome> replayed_step(const ReplayOptions& options, const TransportCapabilities& capabilities,
                                const Output& output) {
  std::vector<ReplayChange> changes;
  for (const std::string& text : options.changes) {
    PPSIM_ASSIGN_OR_RETURN(const auto change, change_of(text));
    changes.push_back(change);
  }
  PPSIM_ASSIGN_OR_RETURN(const auto subject, read_subject(options.input, options.costs));
  PPSIM_ASSIGN_OR_RETURN(auto program, default_program(subject));
  note_assumed_communicators(subject, output);
  const AnalyzedProgram analyzed(std::move(program), capabilities);
  auto steps = read_measured_steps(options.traces, analyzed.program());
  if (!steps)
    return tl::unexpected(of_other_costs(steps.error(), std::holds_alternative<Schedule>(subject.ir)));
  if (!analyzed.finishes())
    return make_error(ErrorCode::deadlock, "this Program cannot finish on this transport",
                      {.found = "--transport " + transport_name(capabilities),
                       .expected = "the transport of the run, or ppsim verify to say who waits for whom"});
  const TimedTrace& trace = steps->traces.front();
  Outcome outcome{.measured = analyzed,
                  .trace = trace,
                  .costs = replay_costs(analyzed, trace),
                  .name = subject.name,
                  .changed = analyzed,
                  .changed_name = subject.name,
                  .replay = {},
                  .computation_alone = steps->computation_alone,
                  .steps = {}};
  if (!options.other.empty()) {
    PPSIM_ASSIGN_OR_RETURN(auto other,
                           other_program(options, subject.recompute, outcome, outcome.changed_name));
    PPSIM_RETURN_IF_ERROR(check_same_shape(outcome.measured.program(), other));
    outcome.changed = AnalyzedProgram(std::move(other), capabilities);
    if (!outcome.changed.finishes())
      return make_error(ErrorCode::deadlock, "the other order cannot finish on this transport",
                        {.found = options.other + " on " + transport_name(capabilities),
                         .expected = "another --transport, or ppsim verify to say who waits for whom"});
  }
  const AnalyzedProgram* const other = options.other.empty() ? nullptr : &outcome.changed;
  PPSIM_RETURN_IF_ERROR(replay_steps(steps->traces, changes, other, outcome));
  return outcome;
}

std::string rank_rows(const Outcome& outcome) {
  const StepTimes before = step_times(outcome.measured.program(), outcome.trace);
  const StepTimes after = step_times(outcome.changed.program(), outcome.replay);
  TextTable rows = {{"rank", "busy measured", "busy", "idle measured", "idle"}};
  for (const RankId rank : before.ranks.ids()) {
    rows.push_back({std::to_string(rank.value()), time_text(before.ranks[rank].busy),
                    time_text(after.ranks[rank].busy),
                    time_text(outcome.measured_step() - before.ranks[rank].busy),
                    time_text(outcome.step() - after.ranks[rank].busy)});
  }
  return table_text(rows);
}

int microbatches(const AnalyzedProgram& analyzed) {
  return batch_microbatches(analyzed.program().pipeline());
}

/// The share by which a replay takes longer than the measured step, per microbatch if their numbers differ.
double change_share(const Outcome& outcome, const ReplayedStep& step) {
  return static_cast<double>(step.replayed) / microbatches(outcome.changed) /
             (static_cast<double>(std::max<Nanoseconds>(1, step.measured)) / microbatches(outcome.measured)) -
         1;
}

/// The medians of several steps, and the effect of the change on each.
std::string several_steps(const ReplayOptions& options, const Outcome& outcome) {
  if (outcome.steps.size() == 1) return "";
  const auto median = [&](Nanoseconds ReplayedStep::*time) {
    std::vector<Nanoseconds> times;
    for (const ReplayedStep& step : outcome.steps) times.push_back(step.*time);
    std::ranges::sort(times);
    return time_text(std::midpoint(times[(times.size() - 1) / 2], times[times.size() / 2]));
  };
  std::string text = "The first of " + std::to_string(outcome.steps.size()) +
                     " steps. Medians: " + median(&ReplayedStep::measured) + " as measured";
  if (options.changes.empty() && options.other.empty()) return text + ".\n";
  text += ", " + median(&ReplayedStep::replayed) + " with the change";
  std::vector<double> shares;
  for (const ReplayedStep& step : outcome.steps)
    if (step.measured > 0) shares.push_back(change_share(outcome, step));
  if (shares.empty()) return text + ".\n";
  const auto [least, most] = std::ranges::minmax(shares);
  const bool is_same = microbatches(outcome.measured) == microbatches(outcome.changed);
  return text + "; the time of a " + (is_same ? "step" : "microbatch") + " changes by " +
         signed_percent_text(least) + " to " + signed_percent_text(most) + ".\n";
}

std::string advice(const ReplayOptions& options, const Outcome& outcome) {
  const Nanoseconds measured = outcome.measured_step();
  const Nanoseconds unchanged = outcome.unchanged_step();
  if (measured != unchanged)
    return "The replay of the trace as it is takes " + time_text(unchanged) +
           ": it lacks what the step waited for.";
  if (options.changes.empty() && options.other.empty())
    return "As it is, the replay takes what was measured. Next: --change rank:0=0.9 or --as NAME.";
  const int before = microbatches(outcome.measured);
  const int after = microbatches(outcome.changed);
  if (outcome.step() == measured && before == after) return "Nothing that the step waits for has changed.";
  const double share = change_share(outcome, {measured, outcome.step()});
  const std::string what = before == after ? "So the step is "
                                           : "With " + std::to_string(after) + " microbatches instead of " +
                                                 std::to_string(before) + ", the time of one is ";
  return what + percent_text(std::abs(share)) + (share < 0 ? " shorter." : " longer.");
}

Json rank_json(const StepTimes& before, const StepTimes& after) {
  Json ranks = Json::array();
  for (const RankId rank : before.ranks.ids()) {
    ranks.push_back({{"measured_busy_ns", before.ranks[rank].busy}, {"busy_ns", after.ranks[rank].busy}});
  }
  return ranks;
}

Json steps_json(const std::vector<ReplayedStep>& steps) {
  Json result = Json::array();
  for (const ReplayedStep& step : steps)
    result.push_back({{"measured_step_ns", step.measured}, {"step_ns", step.replayed}});
  return result;
}

Json replay_json(const ReplayOptions& options, const Outcome& outcome) {
  return {{"schedule", outcome.name},
          {"replayed_schedule", outcome.changed_name},
          {"microbatches", microbatches(outcome.measured)},
          {"replayed_microbatches", microbatches(outcome.changed)},
          {"changes", options.changes},
          {"measured_step_ns", outcome.measured_step()},
          {"unchanged_step_ns", outcome.unchanged_step()},
          {"step_ns", outcome.step()},
          {"per_rank", rank_json(step_times(outcome.measured.program(), outcome.trace),
                                 step_times(outcome.changed.program(), outcome.replay))},
          {"steps", steps_json(outcome.steps)},
          {"program_hash", program_hash(outcome.changed.program())},
          {"transport", transport_name(outcome.changed.capabilities())}};
}

void print_text(const ReplayOptions& options, const Outcome& outcome) {
  std::string changed = outcome.changed_name == outcome.name && options.other.empty()
                            ? std::string()
                            : " as " + outcome.changed_name;
  for (const std::string& change : options.changes) changed += (changed.empty() ? " with " : ", ") + change;
  std::cout << outcome.name << ": " << outcome.measured.program().pipeline() << '\n'
            << "step " << time_text(outcome.measured_step()) << " as measured, " << time_text(outcome.step())
            << (changed.empty() ? " replayed" : changed) << '\n'
            << rank_rows(outcome) << several_steps(options, outcome) << advice(options, outcome) << '\n';
}

Expected<void> write_replay(const ReplayOptions& options, const Outcome& outcome) {
  if (options.output.empty()) return {};
  const CostTable no_costs;
  const SizeTable no_sizes;
  return write_trace_file(options.output, {outcome.changed, outcome.replay, no_costs, no_sizes, true});
}

Expected<int> run(const ReplayOptions& options, const Output& output) {
  PPSIM_ASSIGN_OR_RETURN(const auto capabilities,
                         capabilities_of(options.transport, options.costs.parallelism));
  PPSIM_ASSIGN_OR_RETURN(const auto outcome, replayed_step(options, capabilities, output));
  PPSIM_RETURN_IF_ERROR(write_replay(options, outcome));
  if (outcome.computation_alone)
    output.note("the trace has no transfers: they take no time, and what they delay is kept as it was");
  if (output.json) {
    output.print(replay_json(options, outcome));
  } else {
    print_text(options, outcome);
  }
  return kDone;
}

}  // namespace

void add_replay(Command& program) {
  auto options = std::make_shared<ReplayOptions>();
  Command command = program.add_subcommand(
      "replay", "a measured step with one thing changed: a cost, a rank, a link, an order");
  command.add_option("INPUT", options->input.input, "FILE or NAME that was traced").required();
  command
      .add_option(
          "--trace", options->traces,
          "the measured step: .csv as run --trace writes it, or what torch.profiler (.json, a folder) or "
          "nsys (.sqlite) saw, all ranks")
      .one_value_each()
      .required();
  command
      .add_option("--change", options->changes,
                  "COSTS=FACTOR: what F, compute, transfers, rank:2, stage:0, link:0-1, SEND_F:0-1, ... take "
                  "times a factor; may be repeated")
      .one_value_each();
  command.add_option("--as", options->other, "FILE or NAME that does the same actions in another order");
  command
      .add_option("-o,--output", options->output, "timed trace: .csv, .json (Perfetto, Chrome) or .pftrace")
      .check(trace_file());
  add_input_options(command, options->input);
  add_transport_options(command, options->transport);
  add_cost_options(command, options->costs);
  command.runs(run, options);
}

}  // namespace ppsim::cli
