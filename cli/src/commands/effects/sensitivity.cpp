#include <algorithm>
#include <cmath>
#include <iomanip>
#include <iostream>
#include <set>
#include <sstream>

#include "command_line/shell_words.hpp"
#include "command_line/validators.hpp"
#include "commands/effects/effects.hpp"
#include "input/evaluated.hpp"
#include "input/rank_shares.hpp"
#include "options/transport_choice.hpp"
#include "output/chart_page.hpp"
#include "output/metrics_json.hpp"
#include "ppsim/core/ir/sequences.hpp"
#include "ppsim/core/text/as_text.hpp"
#include "ppsim/planner/effects/sensitivity.hpp"
#include "ppsim/planner/evaluate.hpp"
#include "ppsim/planner/files.hpp"

namespace ppsim::cli {
namespace {

struct SensitivityOptions {
  InputOptions input;
  CostOptions costs;
  TransportChoice transport;
  std::string by = "kind", against, over, report, per = "stage";
  bool added = false;
};

Expected<SimulatedStep> evaluated_one(const SensitivityOptions& options, const std::string& input,
                                      const TransportCapabilities& capabilities, const Output& output) {
  InputOptions one = options.input;
  one.input = input;
  // Parameters are for the name among a name and a file.
  if (names_file(input) && !options.against.empty()) one.drop_parameters();
  return evaluated("sensitivity", read_subject_per(options.per, one, options.costs), capabilities, output);
}

/// By kind there is the network of a model, too.
Expected<std::vector<Sensitivity>> sensitivities_of(const SensitivityOptions& options,
                                                    const SimulatedStep& step) {
  PPSIM_ASSIGN_OR_RETURN(const auto grouping, cost_grouping_from_name(options.by));
  auto results = sensitivities(step, grouping);
  if (!results || options.by != "kind" || options.costs.model.empty()) return results;
  PPSIM_ASSIGN_OR_RETURN(const auto source, cost_source(options.costs));
  auto network = network_sensitivities(step, std::get<Workload>(*source));
  if (!network) return network;
  append_all(*results, *network);
  return results;
}

std::string factor_text(const Ratio& factor) {
  return factor.is_infinite() ? "any" : "x" + number_text(factor.value());
}

/// The gain or loss of a step, "+0.33 %".
std::string change_text(double changed, double step) {
  const double percent = step == 0 ? 0 : 100 * (changed - step) / step;
  if (std::abs(percent) < 0.00005) return "0 %";
  std::ostringstream out;
  out << std::showpos << std::fixed << std::setprecision(4) << percent << " %";
  return out.str();
}

std::string path_text(const StepGrowth& growth) {
  const std::string least = time_text(growth.below.slope);
  const std::string most = time_text(growth.above.slope);
  return least == most ? least : least + " or " + most;
}

std::string count_text(const Sensitivity& of) {
  if (!of.added) return "-";
  const std::string below = std::to_string(of.added->below.slope);
  const std::string above = std::to_string(of.added->above.slope);
  const bool is_least = of.smallest == 0;  // nothing can be taken off
  return below == above || is_least ? above : below + " or " + above;
}

std::vector<std::string> row_of(const Sensitivity& of, double step) {
  const bool is_free = of.total == 0;
  return {of.group,
          std::to_string(of.actions),
          time_text(of.total),
          count_text(of),
          path_text(of.scaled),
          is_free ? "-" : change_text(of.one_percent_less, step),
          is_free ? "-" : change_text(of.one_percent_more, step),
          is_free ? "-" : factor_text(of.scaled.from) + " to " + factor_text(of.scaled.to)};
}

/// True of a group that others add up to.
bool is_sum(const Sensitivity& result) {
  const std::set<std::string> sums = {"compute", "transfers", "collectives"};
  return sums.contains(result.group);
}

/// Of those that are no sum of others, the one that pays most where it takes less; null: none does.
const Sensitivity* best_of(const std::vector<Sensitivity>& results) {
  const Sensitivity* best = nullptr;
  for (const Sensitivity& result : results) {
    if (is_sum(result) || result.scaled.below.slope == 0) continue;
    if (best == nullptr || result.one_percent_less < best->one_percent_less) best = &result;
  }
  return best;
}

std::string advice(const SensitivityOptions& options, const std::vector<Sensitivity>& results, double step) {
  if (step == 0) return "A step that takes no time owes nothing to any cost.";
  if (results.empty()) return "There is no " + options.by + " whose cost could change.";
  if (std::ranges::all_of(results, [](const Sensitivity& result) { return result.total == 0; }))
    return "None of them costs anything.";
  const Sensitivity* best = best_of(results);
  if (best == nullptr) return "No group alone makes the step shorter: several paths are equally long.";
  const auto as_much = std::ranges::count_if(results, [&](const Sensitivity& result) {
    return !is_sum(result) && result.one_percent_less == best->one_percent_less;
  });
  const char* next = options.by == "kind"   ? " Next: --by rank says where."
                     : options.by == "rank" ? " Next: --by class says which of its actions."
                                            : "";
  return "1 % less of " + best->group + " shortens the step by " +
         change_text(best->one_percent_less, step).substr(1) +
         (as_much > 1 ? ", and nothing shortens it more." : ", more than any other.") + next;
}

void print_text(const SensitivityOptions& options, const SimulatedStep& step,
                const std::vector<Sensitivity>& results) {
  const auto whole = static_cast<double>(step.step());
  TextTable rows = {
      {options.by, "actions", "in all", "on the path", "path time", "1 % less", "1 % more", "path holds"}};
  for (const Sensitivity& result : results) rows.push_back(row_of(result, whole));
  std::cout << simulated_line(step.capabilities()) << '\n'
            << step.name << ": " << step.program().pipeline() << '\n'
            << "step " << time_text(step.step()) << '\n'
            << table_text(rows) << advice(options, results, whole) << '\n'
            << notes_text(step);
}

Json growth_json(const StepGrowth& growth) {
  const auto finite = [](const Ratio& ratio) { return ratio.is_infinite() ? Json() : Json(ratio.value()); };
  return {{"slope_below", growth.below.slope},
          {"slope_above", growth.above.slope},
          {"holds_from", growth.from.value()},
          {"holds_to", finite(growth.to)},
          {"holds_from_exact", as_text(growth.from)},
          {"holds_to_exact", growth.to.is_infinite() ? Json() : Json(as_text(growth.to))}};
}

Json sensitivity_json(const Sensitivity& of) {
  Json added;
  if (of.added) {
    added = growth_json(*of.added);
    if (of.smallest == 0) added["slope_below"] = Json();  // nothing can be taken off
    added["at_ns"] = of.smallest;
  }
  return {{"group", of.group},
          {"actions", of.actions},
          {"total_ns", of.total},
          {"step_1_percent_less_ns", of.one_percent_less},
          {"step_1_percent_more_ns", of.one_percent_more},
          {"factor", growth_json(of.scaled)},
          {"added_ns", added}};
}

Json step_json(const SimulatedStep& step) {
  return {
      {"schedule", step.name}, {"step_ns", step.step()}, {"transport", transport_name(step.capabilities())}};
}

/// Bars of what one percent less and more of each group's costs does, and the table.
std::string effects_page(const SensitivityOptions& options, const SimulatedStep& step,
                         const std::vector<Sensitivity>& results, const Output& output) {
  const auto whole = static_cast<double>(step.step());
  std::vector<EffectBar> bars;
  std::vector<HtmlRow> rows = {{"",
                                {"", options.by, "actions", "in all", "on the path", "path time", "1 % less",
                                 "1 % more", "path holds"}}};
  for (const Sensitivity& result : results) {
    std::vector<std::string> cells = {""};
    for (const std::string& cell : row_of(result, whole)) cells.push_back(html_text(cell));
    rows.push_back({"", std::move(cells)});
    if (result.total == 0) continue;
    bars.push_back(
        {result.group, result.one_percent_less - whole, result.one_percent_more - whole,
         change_text(result.one_percent_less, whole) + ", " + change_text(result.one_percent_more, whole)});
  }
  const std::string body = "<p>step " + time_text(step.step()) + ". " +
                           html_text(advice(options, results, whole)) +
                           "</p>\n<h2>The step with 1 % less and 1 % more of each cost</h2>\n" +
                           bars_svg(bars) + "<h2>Figures</h2>\n" + html_table(rows);
  return chart_page("What the step of " + step.name + " owes to each " + options.by,
                    command_words(output.arguments), body);
}

Expected<int> run_alone(const SensitivityOptions& options, const SimulatedStep& step, const Output& output) {
  PPSIM_ASSIGN_OR_RETURN(const auto results, sensitivities_of(options, step));
  if (!options.report.empty()) {
    const std::string page = effects_page(options, step, results, output);
    PPSIM_RETURN_IF_ERROR(write_text_file(options.report, page));
  }
  if (!output.json) {
    print_text(options, step, results);
    return kDone;
  }
  Json object = step_json(step);
  object["by"] = options.by;
  object["groups"] = Json::array();
  for (const Sensitivity& result : results) object["groups"].push_back(sensitivity_json(result));
  output.print(object);
  return kDone;
}

/// Two steps whose break-even points are asked for.
struct Pair {
  SimulatedStep first;
  SimulatedStep second;
};

Expected<std::vector<BreakEven>> break_evens(const SensitivityOptions& options, const Pair& pair) {
  std::set<CostGroup> groups;
  if (options.over.empty()) {
    for (const SimulatedStep* step : {&pair.first, &pair.second}) {
      PPSIM_ASSIGN_OR_RETURN(const auto items, planner::priced_items(*step));
      for (const CostGroup& group : items.groups(CostGrouping::kind)) groups.insert(group);
    }
  } else {
    PPSIM_ASSIGN_OR_RETURN(const auto group, cost_group_from_text(options.over));
    groups.insert(group);
  }
  std::vector<BreakEven> results;
  for (const CostGroup& group : groups) {
    PPSIM_ASSIGN_OR_RETURN(auto result, break_even(pair.first, pair.second, {group, options.added}));
    results.push_back(std::move(result));
  }
  return results;
}

const std::string& shorter_name(const Pair& pair, int shorter) {
  static const std::string kBoth = "both take as long";
  return shorter == 0 ? kBoth : shorter < 0 ? pair.first.name : pair.second.name;
}

/// "x2.5", with the cost that it comes to where all actions have the same; "+2.50 ms" where it is added.
std::string point_text(const BreakEven& result, const Ratio& at) {
  if (result.added) return "+" + time_text(static_cast<Nanoseconds>(std::llround(at.value())));
  if (!result.cost) return factor_text(at);
  const double cost = at.value() * static_cast<double>(*result.cost);
  return factor_text(at) + " (" + time_text(static_cast<Nanoseconds>(std::llround(cost))) + ")";
}

void print_break_evens(const Pair& pair, const std::vector<BreakEven>& results) {
  TextTable rows = {{"costs", "from", "to", "shorter step"}};
  for (const BreakEven& result : results) {
    for (std::size_t i = 0; i < result.ranges.size(); ++i) {
      const bool last = i + 1 == result.ranges.size();
      rows.push_back({result.group, point_text(result, result.ranges[i].from),
                      last ? "any" : point_text(result, result.ranges[i + 1].from),
                      shorter_name(pair, result.ranges[i].shorter)});
    }
  }
  const Nanoseconds first = pair.first.step();
  const Nanoseconds second = pair.second.step();
  std::cout << simulated_line(pair.first.capabilities()) << '\n'
            << "step " << time_text(first) << " of " << pair.first.name << ", " << time_text(second) << " of "
            << pair.second.name << '\n'
            << table_text(rows, Align::left)
            << "Each row changes its costs alone and keeps the order of instructions. Next: ppsim verify the "
               "one to use.\n";
}

Json break_even_json(const Pair& pair, const BreakEven& result) {
  Json ranges = Json::array();
  for (const ShorterRange& range : result.ranges) {
    ranges.push_back({{"from", range.from.value()},
                      {"from_exact", as_text(range.from)},
                      {"shorter", range.shorter == 0 ? Json() : Json(shorter_name(pair, range.shorter))}});
  }
  return {{"group", result.group},
          {"unit", result.added ? "added_ns" : "factor"},
          {"cost_ns", result.cost ? Json(*result.cost) : Json()},
          {"ranges", ranges}};
}

Expected<int> run_against(const SensitivityOptions& options, const Pair& pair, const Output& output) {
  PPSIM_RETURN_IF_ERROR(check_comparable("break-even points need", pair.first, pair.second));
  PPSIM_ASSIGN_OR_RETURN(const auto results, break_evens(options, pair));
  if (!output.json) {
    print_break_evens(pair, results);
    return kDone;
  }
  Json object = step_json(pair.first);
  object["against"] = step_json(pair.second);
  object["break_even"] = Json::array();
  for (const BreakEven& result : results) object["break_even"].push_back(break_even_json(pair, result));
  output.print(object);
  return kDone;
}

Expected<int> run(const SensitivityOptions& options, const Output& output) {
  if (!options.costs.given())
    return tl::unexpected(without_costs("sensitivity", options.input, {options.input.input}));
  PPSIM_RETURN_IF_ERROR(check_per(options.per, options.costs));
  PPSIM_ASSIGN_OR_RETURN(const auto capabilities,
                         capabilities_of(options.transport, options.costs.parallelism));
  auto step = evaluated_one(options, options.input.input, capabilities, output);
  if (!step) return report_on(capabilities, step.error(), output);
  if (options.against.empty()) return run_alone(options, *step, output);
  auto other = evaluated_one(options, options.against, capabilities, output);
  if (!other) return report_on(capabilities, other.error(), output);
  // As they were asked for: two variants of one schedule need two names.
  step->name = options.input.input;
  other->name = options.against;
  return run_against(options, {*std::move(step), *std::move(other)}, output);
}

}  // namespace

void add_sensitivity(Command& program) {
  auto options = std::make_shared<SensitivityOptions>();
  Command command = program.add_subcommand(
      "sensitivity", "what a step owes to each cost, exactly, and where another schedule is faster");
  command.add_option("INPUT", options->input.input, "FILE or NAME").required();
  add_parameter_options(command, options->input);
  add_offload_option(command, options->input);
  add_dialect_option(command, options->input.dialect);
  Option by =
      command.add_option("--by", options->by, "kind, rank, stage, link or class: what costs go together");
  by.show_default().check(one_of({"kind", "rank", "stage", "link", "class"}));
  Option against =
      command.add_option("--against", options->against, "another FILE or NAME: at which costs is it faster?");
  against.excludes(by);
  command.add_option("--report", options->report, "HTML page with a bar for each cost group")
      .check(side_file({".html", ".htm"}))
      .excludes(against);
  command
      .add_option("--over", options->over,
                  "with --against: the costs that change, such as F, compute, transfers, rank:0, stage:0, "
                  "link:0-1, F:0 or SEND_F:0-1; default: each kind")
      .needs(against);
  command
      .add_flag("--added", options->added,
                "with --against: add as much to each cost instead of multiplying it")
      .needs(against);
  add_per_option(command, options->per);
  add_transport_options(command, options->transport);
  add_cost_options(command, options->costs);
  command.runs(run, options);
}

}  // namespace ppsim::cli
