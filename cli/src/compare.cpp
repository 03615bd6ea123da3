#include <algorithm>
#include <iostream>

#include "command.hpp"
#include "metrics_json.hpp"
#include "ppsim/core/hash.hpp"
#include "ppsim/planner/evaluate.hpp"
#include "ppsim/planner/report_file.hpp"

namespace ppsim::cli {
namespace {

struct Options {
  InputOptions input;
  std::vector<std::string> inputs;
  CostOptions costs;
  std::string report;
};

Expected<Evaluation> evaluated(const Options& options, const std::string& input) {
  InputOptions one = options.input;
  one.input = input;
  // The parameters are for the names among the inputs.
  if (names_file(input) && !std::ranges::all_of(options.inputs, names_file))
    one.ranks = one.microbatches = one.chunks = one.slices = {}, one.settings.clear();
  auto subject = read_subject(one, options.costs);
  if (!subject) return tl::unexpected(subject.error());
  auto program = default_program(*subject);
  if (!program) return tl::unexpected(program.error());
  // As it was asked for: two variants of one schedule need two names.
  return evaluate(input, *std::move(program), *std::move(subject->costs));
}

/// The same with the input's name in what went wrong.
Expected<Evaluation> named(const Options& options, const std::string& input) {
  return evaluated(options, input).map_error([&](Error error) {
    const bool says_which = error.message.find(input) != std::string::npos || !error.place.file.empty();
    if (!says_which) error.message = input + ": " + error.message;
    return error;
  });
}

/// Most bytes of parameters that a rank holds at once, all their versions.
Bytes parameter_bytes(const Evaluation& step) {
  const TensorTable table = tensor_table(step.program);
  std::vector<Bytes> sizes = tensor_sizes(table, step.costs.tables.sizes);
  for (std::size_t t = 0; t < sizes.size(); ++t) {
    if (table.tensors[t].size_class.kind != TensorKind::parameters) sizes[t] = 0;
  }
  Bytes most = 0;
  for (const MemoryProfile& rank : replay_memory(step.program, step.trace, table, sizes))
    most = std::max(most, rank.peak_bytes);
  return most;
}

/// The same work on the same devices, or the table would compare different things.
Expected<void> check_same_work(const std::vector<Evaluation>& steps) {
  for (const Evaluation& step : steps) {
    const Pipeline& first = steps.front().program.pipeline();
    const Pipeline& other = step.program.pipeline();
    if (first.ranks() == other.ranks() && first.microbatches() == other.microbatches()) continue;
    std::ostringstream found;
    found << step.name << " with " << other;
    return make_error(ErrorCode::bad_argument, "a comparison needs the same ranks and microbatches",
                      {.found = found.str(),
                       .expected = std::to_string(first.ranks()) + " ranks and " +
                                   std::to_string(first.microbatches()) + " microbatches"});
  }
  return {};
}

/// The fastest that fits, or -1.
int best_of(const std::vector<Evaluation>& steps) {
  int best = -1;
  for (int i = 0; i < static_cast<int>(steps.size()); ++i) {
    const Evaluation& step = steps[static_cast<std::size_t>(i)];
    if (!step.fits()) continue;
    if (best < 0 ||
        step.metrics.times.makespan < steps[static_cast<std::size_t>(best)].metrics.times.makespan)
      best = i;
  }
  return best;
}

void print_text(const std::vector<Evaluation>& steps, int best) {
  const bool limited = steps.front().costs.memory_limit.has_value();
  const bool tokens = steps.front().costs.tokens_per_step.has_value();
  std::vector<std::vector<std::string>> rows = {
      {"schedule", "step", "bubble", "of span", "peak memory", "activations", "parameters", "p2p volume"}};
  if (tokens) rows[0].insert(rows[0].end(), {"tokens/s", "MFU"});
  if (limited) rows[0].push_back("of " + size_text(*steps.front().costs.memory_limit));
  for (const Evaluation& step : steps) {
    const StepTimes& times = step.metrics.times;
    int live = 0;
    for (const RankMetrics& rank : step.metrics.ranks) live = std::max(live, rank.peak_live_activations);
    std::vector<std::string> row = {step.name,
                                    time_text(times.makespan),
                                    percent_text(bubble_fraction(times)),
                                    percent_text(bubble_fraction_span(times)),
                                    size_text(step.peak_bytes()),
                                    std::to_string(live),
                                    size_text(parameter_bytes(step)),
                                    size_text(step.sent_bytes())};
    if (tokens) {
      row.push_back(std::to_string(static_cast<long long>(tokens_per_second(step.work(), times.makespan))));
      row.push_back(percent_text(model_flops_utilization(step.work(), times.makespan)));
    }
    if (limited) row.emplace_back(step.fits() ? "fits" : "does not fit");
    rows.push_back(std::move(row));
  }
  std::cout << table_text(rows);
  std::cout << "peak memory and parameters are of the fullest rank; activations are live (stage, microbatch) "
               "of it\n";
  if (best < 0) {
    std::cout << "None fits: try --recompute adaptive, more ranks, or a smaller microbatch.\n";
  } else {
    std::cout << "Fastest that fits: " << steps[static_cast<std::size_t>(best)].name
              << ". Next: ppsim verify it with the same costs.\n";
  }
}

int run(const Options& options, const Output& output) {
  if (!options.costs.given())
    return report({ErrorCode::bad_argument, "compare needs costs: --unit, --costs or --model"}, output);
  std::vector<Evaluation> steps;
  for (const std::string& input : options.inputs) {
    auto step = named(options, input);
    if (!step) return report(step.error(), output);
    steps.push_back(*std::move(step));
  }
  if (auto same = check_same_work(steps); !same) return report(same.error(), output);
  const int best = best_of(steps);
  if (!options.report.empty()) {
    if (auto written = write_report_file(options.report, steps); !written)
      return report(written.error(), output);
  }
  if (output.json) {
    Json items = Json::array();
    for (const Evaluation& step : steps) {
      Json item = evaluation_json(step);
      item.erase("critical_path");
      item["parameter_bytes"] = parameter_bytes(step);
      items.push_back(std::move(item));
    }
    output.print({{"schedules", items},
                  {"best", best < 0 ? Json() : Json(steps[static_cast<std::size_t>(best)].name)}});
  } else {
    print_text(steps, best);
  }
  return best < 0 ? kDoesNotFit : kDone;
}

}  // namespace

void add_compare(CLI::App& app, Selected& selected) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand(
      "compare", "several schedules on the same devices, parameters and tokens, in one table");
  command->add_option("INPUTS", options->inputs, "FILEs or NAMEs")->required();
  add_parameter_options(*command, options->input);
  add_dialect_option(*command, options->input.dialect);
  command->add_option("--report", options->report, "self-contained HTML page")->check(not_stdout());
  add_cost_options(*command, options->costs);
  command->callback(
      [&selected, options] { selected = [options](const Output& output) { return run(*options, output); }; });
}

}  // namespace ppsim::cli
