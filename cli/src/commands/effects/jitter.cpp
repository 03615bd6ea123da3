#include <algorithm>
#include <cmath>
#include <iostream>
#include <thread>

#include "command_line/validators.hpp"
#include "commands/effects/effects.hpp"
#include "input/evaluated.hpp"
#include "options/disturbance_options.hpp"
#include "options/transport_choice.hpp"
#include "ppsim/planner/effects/step_spread.hpp"

namespace ppsim::cli {
namespace {

struct JitterOptions {
  InputOptions input;
  CostOptions costs;
  TransportChoice transport;
  DisturbanceOptions disturbances;
  int samples = 1000;
  std::optional<int> jobs;
};

std::string spread_time(double ns) { return time_text(std::llround(ns)); }

bool is_random(const DisturbanceOptions& disturbances) {
  return !disturbances.varying.empty() || !disturbances.ranks.empty();
}

/// The rank whose replacement pays most; -1 where the samples do not tell it from the others, or from one
/// that pays less than a tenth of a percent.
int rank_to_replace(const StepSpread& spread, bool random) {
  constexpr std::size_t kFewSamples = 30;  // of which the confidence is not known by a normal distribution
  if (random && spread.steps_ns.size() < kFewSamples) return -1;
  const double worth_it = 0.001 * spread.step_ns.mean;
  const auto lowest = [](const RankSpread& rank) { return rank.gain_ns - rank.gain_error_ns; };
  const auto best = std::ranges::max_element(spread.ranks, {}, &RankSpread::gain_ns);
  if (best == spread.ranks.end() || lowest(*best) <= worth_it) return -1;
  for (const RankSpread& other : spread.ranks)
    if (&other != &*best && other.gain_ns + other.gain_error_ns >= lowest(*best)) return -1;
  return static_cast<int>(best - spread.ranks.begin());
}

std::string advice(const StepSpread& spread, const DisturbanceOptions& disturbances) {
  if (spread.planned_ns == 0) return "A step that takes no time has nothing that varies.";
  const bool drawn = !disturbances.ranks.empty();
  const int rank = rank_to_replace(spread, is_random(disturbances));
  const double more = spread.step_ns.mean / static_cast<double>(spread.planned_ns) - 1;
  const std::string added = "The mean step takes " + percent_text(std::abs(more)) +
                            (more < 0 ? " less" : " more") + " than planned. ";
  if (rank < 0) return added + "No rank stands out: ppsim sensitivity says which costs decide the step.";
  const RankSpread& slow = spread.ranks[RankId(rank)];
  const std::string without =
      drawn ? "with a factor that is always 1" : "without its factor of " + number_text(slow.mean_factor);
  return added + "Replace rank " + std::to_string(rank) + ": " + without + " the mean step is " +
         percent_text(slow.gain_ns / spread.step_ns.mean) + " shorter.";
}

std::string ranks_text(const StepSpread& spread) {
  TextTable rows = {{"rank", "its factor", "busy", "95 %", "idle", "gain with factor 1", "+-"}};
  for (int r = 0; r < static_cast<int>(spread.ranks.size()); ++r) {
    const RankSpread& rank = spread.ranks[RankId(r)];
    rows.push_back({std::to_string(r), number_text(rank.mean_factor), spread_time(rank.busy_ns.mean),
                    spread_time(rank.busy_ns.percentiles[2]), spread_time(rank.mean_idle_ns),
                    percent_text(rank.gain_ns / std::max(1.0, spread.step_ns.mean)),
                    percent_text(rank.gain_error_ns / std::max(1.0, spread.step_ns.mean))});
  }
  return table_text(rows);
}

void print_text(const SimulatedStep& step, const JitterOptions& options, const StepSpread& spread) {
  TextTable rows = {{"", "mean", "+-", "50 %", "90 %", "95 %", "99 %"}};
  std::vector<std::string> times = {"step", spread_time(spread.step_ns.mean),
                                    spread_time(spread.step_ns.mean_error)};
  for (const double value : spread.step_ns.percentiles) times.push_back(spread_time(value));
  std::vector<std::string> bubbles = {"bubble", percent_text(spread.bubble.mean),
                                      percent_text(spread.bubble.mean_error)};
  for (const double value : spread.bubble.percentiles) bubbles.push_back(percent_text(value));
  rows.push_back(std::move(times));
  rows.push_back(std::move(bubbles));
  std::cout << simulated_line(step.capabilities()) << '\n'
            << step.name << ": " << step.program().pipeline() << '\n'
            << "step " << time_text(spread.planned_ns) << " as planned; in " << spread.steps_ns.size()
            << (spread.steps_ns.size() == 1 ? " sample" : " samples") << " of seed "
            << options.disturbances.seed << ":\n"
            << table_text(rows) << ranks_text(spread) << advice(spread, options.disturbances) << '\n';
}

Json step_spread_json(const SimulatedStep& step, const JitterOptions& options, const StepSpread& spread) {
  Json ranks = Json::array();
  for (const RankSpread& rank : spread.ranks) {
    ranks.push_back({{"factor", rank.mean_factor},
                     {"busy_ns", spread_json(rank.busy_ns)},
                     {"mean_idle_ns", rank.mean_idle_ns},
                     {"gain_ns", rank.gain_ns},
                     {"gain_error_ns", rank.gain_error_ns}});
  }
  const int replaced = rank_to_replace(spread, is_random(options.disturbances));
  return {{"schedule", step.name},
          {"planned_step_ns", spread.planned_ns},
          {"samples", spread.steps_ns.size()},
          {"seed", options.disturbances.seed},
          {"step_ns", spread_json(spread.step_ns)},
          {"bubble_fraction", spread_json(spread.bubble)},
          {"per_rank", ranks},
          {"replace_rank", replaced < 0 ? Json() : Json(replaced)},
          {"transport", transport_name(step.capabilities())}};
}

Expected<int> run(const JitterOptions& options, const Output& output) {
  PPSIM_ASSIGN_OR_RETURN(const auto disturbances, disturbances_of(options.disturbances));
  PPSIM_ASSIGN_OR_RETURN(const auto capabilities,
                         capabilities_of(options.transport, options.costs.parallelism));
  const auto step = evaluated("jitter", read_subject(options.input, options.costs), capabilities, output);
  if (!step) return report_on(capabilities, step.error(), output);
  const int cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  PPSIM_ASSIGN_OR_RETURN(const auto spread,
                         step_spread(*step, {.disturbances = disturbances,
                                             .samples = disturbances.is_random() ? options.samples : 1,
                                             .seed = options.disturbances.seed,
                                             .threads = options.jobs.value_or(cores)}));
  if (output.json) {
    output.print(step_spread_json(*step, options, spread));
  } else {
    print_text(*step, options, spread);
  }
  return kDone;
}

}  // namespace

void add_jitter(Command& program) {
  auto options = std::make_shared<JitterOptions>();
  Command command = program.add_subcommand(
      "jitter", "steps whose costs vary, with slow ranks and links: which one to replace");
  command.add_option("INPUT", options->input.input, "FILE or NAME").required();
  add_parameter_options(command, options->input);
  add_offload_option(command, options->input);
  add_dialect_option(command, options->input.dialect);
  add_disturbance_options(command, options->disturbances);
  command.add_option("--samples", options->samples, "steps that are drawn")
      .show_default()
      .check(whole(1, 1000000));
  command.add_option("--jobs", options->jobs, "threads; default: as many as there are processors")
      .check(whole(1, 1024));
  add_transport_options(command, options->transport);
  add_cost_options(command, options->costs);
  command.runs(run, options);
}

}  // namespace ppsim::cli
