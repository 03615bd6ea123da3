#include "run_output.hpp"

#include <algorithm>
#include <cmath>
#include <iostream>
#include <thread>

#include "options/disturbance_options.hpp"
#include "options/transport_choice.hpp"
#include "output/metrics_json.hpp"
#include "ppsim/core/ir/hash.hpp"
#include "ppsim/core/ir/inference.hpp"
#include "ppsim/core/ir/padding.hpp"
#include "ppsim/planner/files.hpp"

namespace ppsim::cli {
namespace {

constexpr const char* kNotMeasured = "not measured";

Bytes largest(const auto& values) {
  Bytes most = 0;
  for (const Bytes value : values) most = std::max(most, value);
  return most;
}

bool is_disturbed(const RunReport& report) { return !report.run.disturbed_steps_ns.empty(); }

/// All steps of a run with jitter, measured and simulated one by one.
struct Samples {
  Spread simulated;
  Spread measured;
  double max_difference = 0;  ///< of a step, either way
};

Samples samples_of(const VerifiedRun& run) {
  const std::vector<Nanoseconds>& simulated = run.disturbed_steps_ns;
  const std::vector<Nanoseconds>& measured = run.run.step_ns;
  Samples samples{spread_of({simulated.begin(), simulated.end()}),
                  spread_of({measured.begin(), measured.end()})};
  for (std::size_t i = 0; i < simulated.size(); ++i) {
    const auto expected = static_cast<double>(simulated[i]);
    const double difference = std::abs(static_cast<double>(measured[i]) - expected);
    samples.max_difference = std::max(samples.max_difference, difference / std::max(1.0, expected));
  }
  return samples;
}

Json jitter_json(const RunReport& report) {
  const Samples samples = samples_of(report.run);
  return {{"seed", report.seed},
          {"simulated_steps_ns", report.run.disturbed_steps_ns},
          {"simulated_step_ns", spread_json(samples.simulated)},
          {"measured_step_ns", spread_json(samples.measured)},
          {"max_difference", samples.max_difference}};
}

/// Mean and percentiles.
std::vector<Nanoseconds> figures_of(const Spread& spread) {
  std::vector<Nanoseconds> figures = {std::llround(spread.mean)};
  for (const double value : spread.percentiles) figures.push_back(std::llround(value));
  return figures;
}

void print_jitter(const RunReport& report) {
  const Samples samples = samples_of(report.run);
  const auto simulated = figures_of(samples.simulated);
  const auto measured = figures_of(samples.measured);
  TextTable rows = {
      {"step", "mean", "50 %", "90 %", "95 %", "99 %"}, {"simulated"}, {"measured"}, {"difference"}};
  for (std::size_t i = 0; i < simulated.size(); ++i) {
    rows[1].push_back(time_text(simulated[i]));
    rows[2].push_back(time_text(measured[i]));
    rows[3].push_back(difference_text(measured[i], simulated[i]));
  }
  const std::size_t steps = report.run.run.step_ns.size();
  std::cout << steps << (steps == 1 ? " step" : " steps") << " with jitter of seed " << report.seed
            << ", each within " << percent_text(samples.max_difference) << " of its simulation:\n"
            << table_text(rows);
}

/// Mean loss of a microbatch in each step; empty where there is nothing to lose.
std::vector<double> losses_of(const RunReport& report) {
  std::vector<double> losses = report.run.run.losses;
  if (std::ranges::all_of(losses, [](double loss) { return loss == 0; })) return {};
  for (double& loss : losses) loss /= batch_microbatches(report.program.pipeline());
  return losses;
}

Json or_null(const std::optional<Nanoseconds>& time) { return time ? Json(*time) : Json(); }

/// False for emulated ranks whose costs have no sizes.
bool has_sizes(const VerifiedRun& run) { return largest(run.run.pool_bytes) > 0; }

Json memory_json(const VerifiedRun& run, Bytes bytes) { return has_sizes(run) ? Json(bytes) : Json(); }

/// `bytes`, or null where nobody looked.
Json high_water_json(const VerifiedRun& run, Bytes bytes) {
  return run.timed() ? memory_json(run, bytes) : Json();
}

Json idle_json(const IdleSplit& split) {
  return {{"busy", split.busy},
          {"wait", split.wait},
          {"transfer", split.transfer},
          {"contention", split.contention},
          {"launch", split.launch}};
}

void add_comparison(Json& object, const RunComparison& comparison) {
  object["kinds"] = kinds_json(comparison.kinds);
  object["measured_compute_ns"] = idle_json(comparison.measured);
  object["simulated_compute_ns"] = idle_json(comparison.simulated);
  object["measured_bubble"] = comparison.measured.bubble();
  object["simulated_bubble"] = comparison.simulated.bubble();
}

void add_processes(Json& object, const std::vector<ProcessFigures>& processes) {
  for (std::size_t p = 0; p < processes.size(); ++p) {
    object["processes"].push_back({{"process", p},
                                   {"first_rank", processes[p].first_rank.value()},
                                   {"ranks", processes[p].ranks},
                                   {"clock_offset_ns", processes[p].clock.offset_ns},
                                   {"clock_uncertainty_ns", processes[p].clock.uncertainty_ns}});
  }
}

/// How far the clocks of several processes could be brought in line.
std::string clocks_text(const std::vector<ProcessFigures>& processes) {
  Nanoseconds most = 0;
  for (const ProcessFigures& process : processes) most = std::max(most, process.clock.uncertainty_ns);
  return std::to_string(processes.size()) + " processes, whose clocks are known to " + time_text(most) + '\n';
}

std::vector<std::string> comparison_row(const std::string& name, Nanoseconds measured,
                                        Nanoseconds simulated) {
  return {name, time_text(measured), time_text(simulated), difference_text(measured, simulated)};
}

void print_comparison(const RunReport& report) {
  TextTable rows = {{"all ranks together", "measured", "simulated", "difference"}};
  for (const KindComparison& kind : report.comparison->kinds) {
    const std::string name = std::to_string(kind.count) + " x " + std::string(info(kind.kind).text);
    rows.push_back(comparison_row(name, kind.measured, kind.simulated));
  }
  const IdleSplit& measured = report.comparison->measured;
  const IdleSplit& simulated = report.comparison->simulated;
  rows.push_back(comparison_row("busy", measured.busy, simulated.busy));
  rows.push_back(comparison_row("idle, nothing in flight", measured.wait, simulated.wait));
  rows.push_back(comparison_row("idle, transfer in flight", measured.transfer, simulated.transfer));
  rows.push_back(comparison_row("the same beyond its cost", measured.contention, simulated.contention));
  rows.push_back(comparison_row("idle, ready to start", measured.launch, simulated.launch));
  rows.push_back(comparison_row("step", report.run.measured_step_ns, *report.run.simulated_step_ns));
  std::cout << table_text(rows);
}

void print_memory(const RunReport& report) {
  const VerifiedRun& result = report.run;
  if (!has_sizes(result)) {
    std::cout << "memory: unknown, the costs have no sizes\n";
    return;
  }
  TextTable rows = {{"rank", "high water", "proved worst case", "pool"}};
  for (std::size_t r = 0; r < result.run.pool_bytes.size(); ++r) {
    rows.push_back({std::to_string(r),
                    result.timed() ? size_text(result.run.high_water_bytes.items()[r]) : kNotMeasured,
                    result.proved_bytes.empty() ? "unverified" : size_text(result.proved_bytes[r]),
                    size_text(result.run.pool_bytes.items()[r])});
  }
  std::cout << table_text(rows);
}

/// Where the costs of the simulation come from.
std::string_view costs_text(const RunReport& report) {
  if (is_disturbed(report)) return "its own jitter";
  if (report.given_costs) return "the given costs";
  return report.run.run.traces.size() == 1 ? "its own costs" : "the costs of the step before it";
}

/// Which one of the predicted steps is shown.
std::string shown_text(const RunReport& report) {
  const std::string steps = std::to_string(report.run.predicted_steps);
  if (report.run.predicted_steps == 1) return "measured step ";
  return report.given_costs || !report.run.timed()
             ? "median of " + steps + " measured steps "
             : "of " + steps + " steps the one with the median difference: measured ";
}

/// The loss of the first step, and of the last where the weights have changed since.
void print_loss(const RunReport& report) {
  const std::vector<double> losses = losses_of(report);
  if (losses.empty() || report.exact) return;
  std::cout << "loss of a microbatch " << losses.front();
  if (!report.program.has(OpKind::optimizer)) {
    if (trains(report.program)) std::cout << "; --with opt trains";
  } else if (losses.size() > 1) {
    std::cout << ", after " << losses.size() - 1 << (losses.size() == 2 ? " step " : " steps ")
              << losses.back();
  }
  std::cout << '\n';
}

/// Computation for padding, which a simulation has at the price of its kind. Runs leave it out, but for those
/// that take given times.
std::int64_t padding_left_out(const RunReport& report) {
  if (report.backend == "emulated" || is_disturbed(report)) return 0;
  const auto is_left_out = [&](const Action& action) {
    return is_compute(action.kind) && is_padding(report.program.pipeline(), action);
  };
  return std::ranges::count_if(report.program.all_actions(), is_left_out);
}

/// The step beside its simulations, where there are costs for these.
void print_times(const RunReport& report) {
  const VerifiedRun& result = report.run;
  std::cout << shown_text(report) << time_text(result.measured_step_ns);
  if (result.simulated_step_ns) {
    std::cout << ", simulated with " << costs_text(report) << ' ' << time_text(*result.simulated_step_ns);
  } else {
    std::cout << ", not simulated: costs were not measured, and --costs gives none";
  }
  if (result.repeated_step_ns && (report.given_costs || result.run.traces.size() > 1))
    std::cout << ", with its own " << time_text(*result.repeated_step_ns);
  std::cout << '\n';
}

void print_steps(const RunReport& report) {
  const VerifiedRun& result = report.run;
  print_times(report);
  if (is_disturbed(report)) print_jitter(report);
  if (const auto padding = padding_left_out(report); padding > 0 && result.simulated_step_ns)
    std::cout << "(the simulated step has " << padding
              << " computations for padding, which the measured one leaves out)\n";
  if (report.given_costs) std::cout << free_kinds_text(free_kinds(result.costs, report.program));
  if (result.run.processes.size() > 1) std::cout << clocks_text(result.run.processes);
  const int ranks = report.program.pipeline().ranks();
  const auto cores = static_cast<int>(std::thread::hardware_concurrency());
  if (report.backend == "cpu" && cores < ranks) {
    std::cout << "(the simulation gives every rank a core of its own; here " << ranks << " ranks share "
              << cores << ")\n";
  }
  print_loss(report);
}

std::string_view gradient_verdict_name(GradientVerdict verdict) {
  switch (verdict) {
    case GradientVerdict::equal:
      return "equal";
    case GradientVerdict::rounded:
      return "rounded";
    case GradientVerdict::unjudged:
      return "unjudged";
    case GradientVerdict::wrong:
      return "wrong";
  }
  return "";
}

std::string_view verdict_text(GradientVerdict verdict) {
  switch (verdict) {
    case GradientVerdict::equal:
      return "equal";
    case GradientVerdict::rounded:
      return "sums in another order are rounded otherwise, and --arithmetic integer, which "
             "rounds nothing, tells that from a mistake";
    case GradientVerdict::unjudged:
      return "rounding has grown with the updates, and is not judged";
    case GradientVerdict::wrong:
      return "rounding does not explain it; please report this";
  }
  return "";
}

void print_gradients(const RunReport& report) {
  const VerifiedRun& result = report.run;
  if (!result.max_abs_difference) return;
  if (!std::isfinite(*result.largest_gradient)) {
    std::cout << "gradients of the unpipelined reference are not finite: training has diverged, and nothing "
                 "is judged\n";
    return;
  }
  if (*result.gradients == GradientVerdict::equal) {
    std::cout << "gradients equal the unpipelined reference bit by bit\n";
    return;
  }
  std::cout << "gradients differ from the unpipelined reference by up to " << *result.max_abs_difference
            << " of " << *result.largest_gradient << ": " << verdict_text(*result.gradients) << '\n';
}

}  // namespace

Expected<void> check_outputs(const std::vector<std::string>& paths) {
  for (const std::string& path : paths) {
    if (path.empty()) continue;
    PPSIM_RETURN_IF_ERROR(check_writable(path));
  }
  return {};
}

Expected<void> check_updates(const std::string& option, const Program& program) {
  if (option.empty() || program.has(OpKind::optimizer)) return {};
  return make_error(ErrorCode::bad_argument, "the program has no OPT action and updates no weights",
                    {.found = option, .expected = "--with opt, or a Program with OPT actions"});
}

Json host_json(const HostTime& host) {
  if (host.actions == 0) return nullptr;
  const auto each = [&](Nanoseconds time) {
    return static_cast<double>(time) / static_cast<double>(host.actions);
  };
  return {{"actions", host.actions},
          {"issue_ns", host.issue_ns},
          {"work_ns", host.work_ns},
          {"issue_ns_per_action", each(host.issue_ns)},
          {"executor_ns_per_action", each(host.issue_ns - host.work_ns)}};
}

Json run_json(const RunReport& report) {
  const VerifiedRun& result = report.run;
  Json object = {{"measured_step_ns", result.measured_step_ns},
                 {"simulated_step_ns", or_null(result.simulated_step_ns)},
                 {"repeated_step_ns", or_null(result.repeated_step_ns)},
                 {"steps_ns", result.run.step_ns},
                 {"losses", losses_of(report)},
                 {"pool_bytes", memory_json(result, largest(result.run.pool_bytes))},
                 {"high_water_bytes", high_water_json(result, largest(result.run.high_water_bytes))},
                 {"proved_bytes", nullptr},
                 {"backend", report.backend},
                 {"transport", report.transport},
                 {"replicas", report.replicas},
                 {"verified", result.certificate.has_value()},
                 {"proved_transport", nullptr},
                 {"program_hash", program_hash(report.program)}};
  if (const auto padding = padding_left_out(report); padding > 0) object["padding_left_out"] = padding;
  if (result.certificate) object["proved_transport"] = transport_name(*result.certificate);
  if (is_disturbed(report)) object["jitter"] = jitter_json(report);
  if (report.given_costs) object["free_of_cost"] = free_kinds(result.costs, report.program);
  if (!result.proved_bytes.empty())
    object["proved_bytes"] = memory_json(result, largest(result.proved_bytes));
  if (result.max_abs_difference) {
    object["gradients_equal"] = *result.gradients == GradientVerdict::equal;
    object["max_abs_difference"] = *result.max_abs_difference;
    object["largest_gradient"] = *result.largest_gradient;
    object["gradients"] = gradient_verdict_name(*result.gradients);
  }
  if (!result.gradients_hash.empty()) object["gradients_hash"] = result.gradients_hash;
  for (std::size_t r = 0; r < result.run.pool_bytes.size(); ++r) {
    Json rank = {{"high_water_bytes", high_water_json(result, result.run.high_water_bytes.items()[r])},
                 {"pool_bytes", memory_json(result, result.run.pool_bytes.items()[r])}};
    if (!result.proved_bytes.empty()) rank["proved_bytes"] = memory_json(result, result.proved_bytes[r]);
    object["per_rank"].push_back(std::move(rank));
  }
  if (!report.kernels.empty()) object["kernels"] = report.kernels;
  add_processes(object, result.run.processes);
  if (result.run.host.actions > 0) object["host"] = host_json(result.run.host);
  if (report.comparison != nullptr) add_comparison(object, *report.comparison);
  return object;
}

void print_run(const RunReport& report) {
  const auto& proof = report.run.certificate;
  std::cout << (proof ? transport_line(proof->capabilities)
                      : "unverified: nothing is proved of any transport")
            << "\nprogram " << program_hash(report.program) << ", " << report.program.size()
            << " instructions on " << report.program.pipeline().ranks() << " ranks";
  if (report.replicas > 1) std::cout << ", " << report.replicas << " replicas";
  std::cout << '\n';
  if (!report.kernels.empty()) std::cout << report.kernels << '\n';
  print_memory(report);
  if (report.comparison != nullptr) print_comparison(report);
  print_steps(report);
  print_gradients(report);
}

int print_hang(const VerifiedRun& result, const Output& output) {
  std::string text = "the run hung";
  Json waits = Json::array();
  for (const Wait& wait : result.run.hang) {
    text += "\n" + to_string(wait);
    waits.push_back(to_string(wait));
  }
  output.note("ppsim: " + text);
  if (output.json) {
    Json error = error_json({ErrorCode::deadlock, text});
    error["waits"] = std::move(waits);
    output.print({{"error", std::move(error)}});
  }
  return kRefuted;
}

}  // namespace ppsim::cli
