#include <algorithm>
#include <iostream>
#include <optional>
#include <set>
#include <sstream>

#include "command.hpp"
#include "command_line/shell_words.hpp"
#include "command_line/validators.hpp"
#include "input/communicators.hpp"
#include "input/evaluated.hpp"
#include "input/named_input.hpp"
#include "input/rank_shares.hpp"
#include "options/figures.hpp"
#include "options/transport_choice.hpp"
#include "output/metrics_json.hpp"
#include "ppsim/core/ir/padding.hpp"
#include "ppsim/planner/evaluate.hpp"
#include "ppsim/planner/files.hpp"
#include "ppsim/planner/report_file.hpp"
#include "ppsim/simulator/writers/timeline.hpp"

namespace ppsim::cli {
namespace {

struct CompareOptions {
  InputOptions input;
  std::vector<std::string> inputs;
  CostOptions costs;
  TransportChoice transport;
  std::string report, figure, title, per = "stage";
  std::optional<int> columns;
  int width = 1200;
};

/// A row for an input that fits with no choice of recompute, or for a schedule that these parameters do not
/// suit.
struct Misfit {
  std::string name;
  Error error;
};

/// The result of each input.
struct Compared {
  std::vector<SimulatedStep> steps;
  std::vector<Misfit> misfits;
};

/// The options with which one input is read: parameters are for the names among the inputs.
InputOptions options_of(const CompareOptions& options, const std::string& input) {
  InputOptions one = options.input;
  one.input = input;
  if (names_file(input) && !std::ranges::all_of(options.inputs, names_file)) one.drop_parameters();
  return one;
}

/// Whether the other inputs may be compared all the same: not where the command line itself is wrong.
bool is_misfit(const CompareOptions& options, const std::string& input, const Error& error) {
  if (error.code == ErrorCode::does_not_fit) return true;
  if (error.code != ErrorCode::bad_argument || names_file(input)) return false;
  return check_agrees(options_of(options, input)) && find_schedule(input.substr(0, input.find(':')));
}

/// One input, for a transport.
struct Asked {
  const std::string& input;
  const TransportCapabilities& capabilities;
};

Expected<SimulatedStep> evaluation_of(const CompareOptions& options, const Asked& asked,
                                      const Output& output) {
  const std::string& input = asked.input;
  PPSIM_ASSIGN_OR_RETURN(auto subject,
                         read_subject_per(options.per, options_of(options, input), options.costs));
  PPSIM_ASSIGN_OR_RETURN(auto program, default_program(subject));
  note_assumed_communicators(subject, output);
  // As it was asked for: two variants of one schedule need two names.
  auto step = evaluate(input, std::move(program), *std::move(subject.costs), asked.capabilities);
  if (step && options.costs.unit.empty())
    step->communicator_bytes = communicator_bytes_of(options.transport, step->program());
  return step;
}

/// The same, with the input's name in errors.
Expected<SimulatedStep> named(const CompareOptions& options, const Asked& asked, const Output& output) {
  return evaluation_of(options, asked, output).map_error([&](Error error) {
    const bool says_which = error.message.find(asked.input) != std::string::npos || !error.place.file.empty();
    if (!says_which) error.message = asked.input + ": " + error.message;
    return error;
  });
}

/// Most bytes of parameters that a rank holds at once, all their versions; nothing where no stage has a size
/// of them.
std::optional<Bytes> parameter_bytes(const SimulatedStep& step) {
  const TensorTable& table = step.analyzed.tensors();
  std::vector<Bytes> sizes = tensor_sizes(table, step.costs.tables.sizes);
  for (std::size_t t = 0; t < sizes.size(); ++t) {
    if (table.tensors[t].size_class.kind != TensorKind::parameters) sizes[t] = 0;
  }
  Bytes most = 0;
  for (const MemoryProfile& rank : replay_memory(step.program(), step.trace, table, sizes))
    most = std::max(most, rank.peak_bytes);
  return most > 0 ? std::optional(most) : std::nullopt;
}

/// The work of a step. Costs that are the same for every stage, or every slice, say nothing of how much of
/// the model is in one: then more of them are more work.
struct Contents {
  std::optional<std::int64_t> forwards;  ///< where only their number tells them apart
  bool backward = false;
};

Contents contents_of(const SimulatedStep& step) {
  bool by_stage = false;
  bool by_slice = false;
  for (const auto& [key, duration] : step.costs.tables.costs.entries()) {
    by_stage = by_stage || (key.kind == OpKind::forward && key.subject >= 0);
    by_slice = by_slice || (key.kind == OpKind::forward && key.slice >= 0);
  }
  Contents contents;
  if (!by_stage) contents.forwards = 0;
  for (const Action& action : step.program().all_actions()) {
    if (is_padding(step.program().pipeline(), action)) continue;
    if (action.kind == OpKind::backward || action.kind == OpKind::backward_input) contents.backward = true;
    if (action.kind == OpKind::forward && !by_stage && !(by_slice && action.slice > 0)) ++*contents.forwards;
  }
  return contents;
}

/// How the work of a step compares to that of the first one.
struct Work {
  double ratio = 1;
  bool backward = true;
  bool same = true;
};

Work work_of(const Contents& own, const Contents& first) {
  Work work{.backward = own.backward, .same = own.backward == first.backward};
  if (!own.forwards || !first.forwards || own.forwards == first.forwards) return work;
  work.ratio = static_cast<double>(*own.forwards) / static_cast<double>(*first.forwards);
  work.same = false;
  return work;
}

std::vector<Work> works_of(const CompareOptions& options, const std::vector<SimulatedStep>& steps) {
  std::vector<Work> works;
  const auto contents = [&](const SimulatedStep& step) {
    Contents result = contents_of(step);
    if (options.per == "rank") result.forwards.reset();  // a stage's costs are its share of the model
    return result;
  };
  if (steps.empty()) return works;
  const Contents first = contents(steps.front());
  for (const SimulatedStep& step : steps) works.push_back(work_of(contents(step), first));
  return works;
}

bool all_same(const std::vector<Work>& works) { return std::ranges::all_of(works, &Work::same); }

std::string work_text(const Work& work) {
  return fixed_text(work.ratio, 2) + (work.backward ? "x" : "x, no backward");
}

/// The remark of a report on the work; nothing where it is the same.
std::vector<ReportWork> reported(const std::vector<Work>& works) {
  std::vector<ReportWork> result;
  if (all_same(works)) return result;
  for (const Work& work : works) result.push_back({work_text(work), work.same});
  return result;
}

/// The fastest that fits and does the work of the first one, or -1.
int best_of(const std::vector<SimulatedStep>& steps, const std::vector<Work>& works) {
  int best = -1;
  for (int i = 0; i < static_cast<int>(steps.size()); ++i) {
    const SimulatedStep& step = steps[as_size(i)];
    if (!step.fits() || !works[as_size(i)].same) continue;
    if (best < 0 || step.step() < steps[as_size(best)].step()) best = i;
  }
  return best;
}

std::string communicators_text(const std::vector<SimulatedStep>& steps) {
  Bytes most = 0;
  for (const SimulatedStep& step : steps) most = std::max(most, step.max_communicator_bytes());
  if (most == 0 || !steps.front().costs.has_sizes) return "";
  return "Communicators take up to " + size_text(most) + " of a rank beside its peak.\n";
}

/// Of all steps.
std::vector<std::string> free_kinds_of(const std::vector<SimulatedStep>& steps) {
  std::set<std::string> kinds;
  for (const SimulatedStep& step : steps) {
    for (std::string& kind : free_kinds(step.costs.tables.costs, step.program()))
      kinds.insert(std::move(kind));
  }
  return {kinds.begin(), kinds.end()};
}

/// The bubble of the longest rank says little where another rank has more to do.
std::string longest_rank_text(const std::vector<SimulatedStep>& steps) {
  constexpr double kMuchLess = 0.98;
  std::string names;
  for (const SimulatedStep& step : steps) {
    const StepTimes& times = step.metrics.times;
    const auto longest = std::ranges::max_element(times.ranks.items(), {}, &RankTimes::span);
    if (longest == times.ranks.items().end()) continue;
    if (static_cast<double>(longest->busy) >= kMuchLess * static_cast<double>(ideal_time(times))) continue;
    names += (names.empty() ? "" : ", ") + step.name;
  }
  if (names.empty()) return "";
  return "of span is the idle share of the rank that is longest from its first to its last action. Of " +
         names + " another rank\ncomputes more, and decides the step: its bubble is smaller.\n";
}

std::string misfits_text(const std::vector<Misfit>& misfits) {
  std::ostringstream text;
  for (const Misfit& misfit : misfits) {
    const bool memory = misfit.error.code == ErrorCode::does_not_fit;
    text << misfit.name << (memory ? ": does not fit: " : ": cannot be made: ") << misfit.error << '\n';
  }
  return text.str();
}

void print_text(const CompareOptions& options, const Compared& compared, const std::vector<Work>& works,
                int best) {
  const std::vector<SimulatedStep>& steps = compared.steps;
  const bool comparable = all_same(works);
  const bool limited = steps.front().costs.memory_limit.has_value();
  const bool tokens = steps.front().costs.tokens_per_step.has_value();
  TextTable rows = {
      {"schedule", "step", "bubble", "of span", "peak memory", "activations", "parameters", "p2p volume"}};
  if (tokens) rows[0].insert(rows[0].end(), {"tokens/s", "MFU"});
  if (limited) rows[0].push_back("of " + size_text(*steps.front().costs.memory_limit));
  if (!comparable) rows[0].emplace_back("work");
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const SimulatedStep& step = steps[i];
    const StepTimes& times = step.metrics.times;
    int live = 0;
    for (const RankMetrics& rank : step.metrics.ranks) live = std::max(live, rank.peak_live_activations);
    std::vector<std::string> row = {step.name,
                                    time_text(step.step()),
                                    percent_text(bubble_fraction(times)),
                                    percent_text(bubble_fraction_span(times)),
                                    size_text(step, step.peak_bytes()),
                                    std::to_string(live),
                                    size_text(parameter_bytes(step)),
                                    size_text(step.sent_bytes())};
    if (tokens) {
      row.push_back(std::to_string(static_cast<long long>(tokens_per_second(step.work(), step.step()))));
      row.push_back(percent_text(model_flops_utilization(step.work(), step.step())));
    }
    if (limited) row.emplace_back(step.fits() ? "fits" : "does not fit");
    if (!comparable) row.push_back(work_text(works[i]));
    rows.push_back(std::move(row));
  }
  std::cout << simulated_line(steps.front().capabilities()) << '\n' << table_text(rows);
  const bool sliced = std::ranges::any_of(
      steps, [](const SimulatedStep& step) { return step.program().pipeline().slices() > 1; });
  std::cout << "peak memory and parameters are of the fullest rank; activations are live (stage, microbatch"
            << (sliced ? ", slice" : "") << ") of it\n"
            << misfits_text(compared.misfits) << longest_rank_text(steps) << communicators_text(steps)
            << free_kinds_text(free_kinds_of(steps));
  if (!comparable) {
    std::cout
        << "Not all do the same work, as the last column says of forwards, which these costs take to be "
           "equally long, and of backwards."
        << (options.costs.unit.empty() ? "\n"
                                       : " --per rank gives every rank the same share of the model.\n");
  }
  if (best < 0) {
    std::cout << "None fits: try --recompute adaptive, more ranks, or a smaller microbatch.\n";
  } else {
    const char* fitting = limited ? " that fits" : "";
    const char* working = limited ? " and does the work of the first" : " that does the work of the first";
    std::cout << "Fastest" << fitting << (comparable ? "" : working) << ": " << steps[as_size(best)].name
              << ". Next: ppsim verify it with the same costs.\n";
  }
  std::cout << notes_text(steps.front());
}

/// Writes all steps over one axis, each under the name that the user gave.
Expected<void> write_figure(const CompareOptions& options, const std::vector<SimulatedStep>& steps) {
  std::vector<SvgRun> runs;
  for (const SimulatedStep& step : steps) runs.push_back({step.name, step.program(), step.trace});
  const SvgOptions figure{.title = options.title,
                          .width = options.columns ? column_pixels(*options.columns) : options.width,
                          .unit_axis = !options.costs.unit.empty()};
  std::ostringstream picture;
  if (suffix_of(options.figure) == ".pdf") {
    PPSIM_RETURN_IF_ERROR(check_pdf_title(options.title));
    write_pdf(picture, runs, figure);
  } else {
    write_svg(picture, runs, figure);
  }
  return write_text_file(options.figure, picture.str());
}

Expected<int> run(const CompareOptions& options, const Output& output) {
  if (!options.costs.given()) return tl::unexpected(without_costs("compare", options.input, options.inputs));
  PPSIM_ASSIGN_OR_RETURN(const auto capabilities,
                         capabilities_of(options.transport, options.costs.parallelism));
  PPSIM_RETURN_IF_ERROR(check_per(options.per, options.costs));
  Compared compared;
  std::vector<SimulatedStep>& steps = compared.steps;
  for (const std::string& input : options.inputs) {
    auto step = named(options, {input, capabilities}, output);
    if (step) {
      steps.push_back(*std::move(step));
    } else if (is_misfit(options, input, step.error())) {
      compared.misfits.push_back({input, step.error()});
    } else {
      return report_on(capabilities, step.error(), output);
    }
    output.done(steps.size() + compared.misfits.size(), options.inputs.size());
  }
  if (steps.empty()) return tl::unexpected(compared.misfits.front().error);
  for (const SimulatedStep& step : steps) {
    PPSIM_RETURN_IF_ERROR(check_comparable("a comparison needs", steps.front(), step));
  }
  const std::vector<Work> works = works_of(options, steps);
  const int best = best_of(steps, works);
  if (!options.report.empty()) {
    const std::string command = command_words(output.arguments);
    PPSIM_RETURN_IF_ERROR(write_report_file(options.report, steps, reported(works), command));
  }
  if (!options.figure.empty()) {
    PPSIM_RETURN_IF_ERROR(write_figure(options, steps));
  }
  if (output.json) {
    Json items = Json::array();
    for (std::size_t i = 0; i < steps.size(); ++i) {
      const SimulatedStep& step = steps[i];
      Json item = evaluation_json(step);
      item.erase("critical_path");
      item["relative_work"] = works[i].ratio;
      item["has_backward"] = works[i].backward;
      item["parameter_bytes"] = size_json(parameter_bytes(step));
      items.push_back(std::move(item));
    }
    Json misfits = Json::array();
    for (const Misfit& misfit : compared.misfits)
      misfits.push_back({{"schedule", misfit.name}, {"fits", false}, {"error", error_json(misfit.error)}});
    output.print({{"schedules", items},
                  {"misfits", misfits},
                  {"best", best < 0 ? Json() : Json(steps[as_size(best)].name)}});
  } else {
    print_text(options, compared, works, best);
  }
  return best < 0 ? kDoesNotFit : kDone;
}

}  // namespace

void add_compare(Command& program) {
  auto options = std::make_shared<CompareOptions>();
  Command command = program.add_subcommand(
      "compare", "several schedules on the same devices, parameters and tokens, in one table");
  command.add_option("INPUTS", options->inputs, "FILEs or NAMEs").required();
  add_input_options(command, options->input);
  command.add_option("--report", options->report, "self-contained HTML page")
      .check(side_file({".html", ".htm"}));
  const Option figure =
      command.add_option("--figure,--svg", options->figure, "FILE.svg or FILE.pdf: all over one axis of time")
          .check(side_file({".svg", ".pdf"}));
  command.add_option("--title", options->title, "of the figure").needs(figure);
  const Option width = command.add_option("--width", options->width, "pixels of the figure (1200)")
                           .check(whole(200, 20000))
                           .needs(figure);
  add_columns_option(command, options->columns, width).needs(figure);
  add_per_option(command, options->per);
  add_transport_options(command, options->transport);
  add_cost_options(command, options->costs);
  command.runs(run, options);
}

}  // namespace ppsim::cli
