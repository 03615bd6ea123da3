#include <algorithm>
#include <cmath>
#include <iostream>
#include <limits>
#include <sstream>
#include <thread>

#include "command_line/validators.hpp"
#include "commands/effects/effects.hpp"
#include "input/evaluated.hpp"
#include "options/transport_choice.hpp"
#include "ppsim/planner/effects/step_spread.hpp"

namespace ppsim::cli {
namespace {

struct JitterOptions {
  InputOptions input;
  CostOptions costs;
  TransportChoice transport;
  std::vector<std::string> varying, slow_ranks, slow_links;
  std::string ranks;
  int samples = 1000;
  std::uint64_t seed = 1;
  std::optional<int> jobs;
};

/// "KEY=VALUE" of an option.
struct Assignment {
  std::string key, value;
};

Expected<Assignment> assignment(const std::string& option, const std::string& text, const char* expected) {
  const std::size_t equals = text.find('=');
  if (equals != std::string::npos && equals > 0)
    return Assignment{text.substr(0, equals), text.substr(equals + 1)};
  return make_error(ErrorCode::bad_argument, option + " needs a value",
                    {.found = text, .expected = expected});
}

Error named(const std::string& option, Error error) {
  error.message = option + ": " + error.message;
  return error;
}

Expected<VaryingCosts> varying_of(const std::string& text) {
  PPSIM_ASSIGN_OR_RETURN(const auto parts,
                         assignment("--vary", text, "COSTS=SPREAD, such as compute=lognormal:0.05"));
  VaryingCosts varying;
  if (parts.key != "all") {
    const auto group = cost_group_from_text(parts.key);
    if (!group) return tl::unexpected(named("--vary", group.error()));
    varying.group = *group;
  }
  auto spread = factor_spread_from_text(parts.value);
  if (!spread) return tl::unexpected(named("--vary", spread.error()));
  varying.spread = *std::move(spread);
  return varying;
}

constexpr const char* kRankFactor = "RANK=FACTOR, such as 3=1.2";
constexpr const char* kLinkFactor = "RANK-RANK=FACTOR, such as 2-3=2";

Expected<SlowRank> slow_rank_of(const std::string& text) {
  PPSIM_ASSIGN_OR_RETURN(const auto parts, assignment("--slow-rank", text, kRankFactor));
  int rank = 0;
  SlowRank slow;
  if (!read_number(parts.key, rank) || rank < 0 || !read_number(parts.value, slow.factor))
    return make_error(ErrorCode::bad_argument, "--slow-rank: no rank with its factor",
                      {.found = text, .expected = kRankFactor});
  slow.rank = RankId(rank);
  return slow;
}

Expected<SlowLink> slow_link_of(const std::string& text) {
  PPSIM_ASSIGN_OR_RETURN(const auto parts, assignment("--slow-link", text, kLinkFactor));
  const std::size_t dash = parts.key.find('-');
  int a = 0;
  int b = 0;
  SlowLink slow;
  if (dash == std::string::npos || !read_number(parts.key.substr(0, dash), a) || a < 0 ||
      !read_number(parts.key.substr(dash + 1), b) || b < 0 || !read_number(parts.value, slow.factor))
    return make_error(ErrorCode::bad_argument, "--slow-link: no two ranks with their factor",
                      {.found = text, .expected = kLinkFactor});
  slow.a = RankId(a);
  slow.b = RankId(b);
  return slow;
}

/// Reads each text with `read` into a list.
template <class Item, class Read>
Expected<void> read_all(const std::vector<std::string>& texts, const Read& read, std::vector<Item>& items) {
  for (const std::string& text : texts) {
    PPSIM_ASSIGN_OR_RETURN(auto item, read(text));
    items.push_back(std::move(item));
  }
  return {};
}

Expected<Disturbances> disturbances_of(const JitterOptions& options) {
  Disturbances result;
  PPSIM_RETURN_IF_ERROR(read_all(options.varying, varying_of, result.varying));
  PPSIM_RETURN_IF_ERROR(read_all(options.slow_ranks, slow_rank_of, result.slow_ranks));
  PPSIM_RETURN_IF_ERROR(read_all(options.slow_links, slow_link_of, result.slow_links));
  if (!options.ranks.empty()) {
    auto spread = factor_spread_from_text(options.ranks);
    if (!spread) return tl::unexpected(named("--vary-ranks", spread.error()));
    result.ranks = *std::move(spread);
  }
  const bool nothing = !result.is_random() && result.slow_ranks.empty() && result.slow_links.empty();
  if (!nothing) return result;
  return make_error(ErrorCode::bad_argument, "nothing differs from the plan",
                    {.expected = "--vary, --vary-ranks, --slow-rank or --slow-link"});
}

std::string spread_time(double ns) { return time_text(std::llround(ns)); }

/// The rank whose replacement pays most; -1 where none pays a tenth of a percent.
int rank_to_replace(const StepSpread& spread) {
  constexpr double kWorthIt = 0.001;
  int best = -1;
  for (int r = 0; r < static_cast<int>(spread.ranks.size()); ++r) {
    const double gain = spread.ranks[RankId(r)].gain_ns;
    if (gain <= kWorthIt * spread.step_ns.mean) continue;
    if (best < 0 || gain > spread.ranks[RankId(best)].gain_ns) best = r;
  }
  return best;
}

std::string factor_text(double factor) {
  std::ostringstream out;
  out.precision(4);
  out << factor;
  return out.str();
}

/// `drawn`: the factors of ranks differ from step to step.
std::string advice(const StepSpread& spread, bool drawn) {
  if (spread.planned_ns == 0) return "A step that takes no time has nothing that varies.";
  const int rank = rank_to_replace(spread);
  const double more = spread.step_ns.mean / static_cast<double>(spread.planned_ns) - 1;
  const std::string added = "The mean step takes " + percent_text(std::abs(more)) +
                            (more < 0 ? " less" : " more") + " than planned. ";
  if (rank < 0)
    return added + "No rank alone is to blame: ppsim sensitivity says which costs decide the step.";
  const RankSpread& slow = spread.ranks[RankId(rank)];
  const std::string without =
      drawn ? "with a factor that is always 1" : "without its factor of " + factor_text(slow.mean_factor);
  return added + "Replace rank " + std::to_string(rank) + ": " + without + " the mean step is " +
         percent_text(slow.gain_ns / spread.step_ns.mean) + " shorter.";
}

std::string ranks_text(const StepSpread& spread) {
  std::vector<std::vector<std::string>> rows = {
      {"rank", "its factor", "busy", "95 %", "idle", "gain with factor 1"}};
  for (int r = 0; r < static_cast<int>(spread.ranks.size()); ++r) {
    const RankSpread& rank = spread.ranks[RankId(r)];
    rows.push_back({std::to_string(r), factor_text(rank.mean_factor), spread_time(rank.busy_ns.mean),
                    spread_time(rank.busy_ns.percentiles[2]), spread_time(rank.mean_idle_ns),
                    percent_text(rank.gain_ns / std::max(1.0, spread.step_ns.mean))});
  }
  return table_text(rows);
}

void print_text(const SimulatedStep& step, const JitterOptions& options, const StepSpread& spread) {
  std::vector<std::vector<std::string>> rows = {{"", "mean", "+-", "50 %", "90 %", "95 %", "99 %"}};
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
            << (spread.steps_ns.size() == 1 ? " sample" : " samples") << " of seed " << options.seed << ":\n"
            << table_text(rows) << ranks_text(spread) << advice(spread, !options.ranks.empty()) << '\n';
}

Json spread_json(const Spread& spread) {
  Json object = {{"mean", spread.mean},
                 {"mean_low", spread.mean - spread.mean_error},
                 {"mean_high", spread.mean + spread.mean_error}};
  for (std::size_t i = 0; i < Spread::kShares.size(); ++i) {
    const std::string name = "p" + std::to_string(std::lround(100 * Spread::kShares[i]));
    object[name] = spread.percentiles[i];
    object[name + "_low"] = spread.lowest[i];
    object[name + "_high"] = spread.highest[i];
  }
  return object;
}

Json step_spread_json(const SimulatedStep& step, const JitterOptions& options, const StepSpread& spread) {
  Json ranks = Json::array();
  for (const RankSpread& rank : spread.ranks) {
    ranks.push_back({{"factor", rank.mean_factor},
                     {"busy_ns", spread_json(rank.busy_ns)},
                     {"mean_idle_ns", rank.mean_idle_ns},
                     {"gain_ns", rank.gain_ns}});
  }
  const int replaced = rank_to_replace(spread);
  return {{"schedule", step.name},
          {"planned_step_ns", spread.planned_ns},
          {"samples", spread.steps_ns.size()},
          {"seed", options.seed},
          {"step_ns", spread_json(spread.step_ns)},
          {"bubble_fraction", spread_json(spread.bubble)},
          {"per_rank", ranks},
          {"replace_rank", replaced < 0 ? Json() : Json(replaced)},
          {"transport", transport_name(step.capabilities())}};
}

int run(const JitterOptions& options, const Output& output) {
  auto disturbances = disturbances_of(options);
  if (!disturbances) return report(disturbances.error(), output);
  const auto capabilities = capabilities_of(options.transport, options.costs.spread);
  if (!capabilities) return report(capabilities.error(), output);
  const auto step = evaluated("jitter", read_subject(options.input, options.costs), *capabilities, output);
  if (!step) return report_on(*capabilities, step.error(), output);
  const int cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  const auto spread = step_spread(*step, {.disturbances = *disturbances,
                                          .samples = disturbances->is_random() ? options.samples : 1,
                                          .seed = options.seed,
                                          .threads = options.jobs.value_or(cores)});
  if (!spread) return report(spread.error(), output);
  if (output.json) {
    output.print(step_spread_json(*step, options, *spread));
  } else {
    print_text(*step, options, *spread);
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
  command
      .add_option("--vary", options->varying,
                  "COSTS=SPREAD: all, compute, transfers, F, rank:0, ... = lognormal:0.05, normal:0.1, "
                  "gamma:0.3 or list:1,1,1.5, with :0.9 for a correlation of each with the next")
      .one_value_each();
  command.add_option("--vary-ranks", options->ranks, "SPREAD of a factor that each rank keeps for a step");
  command
      .add_option("--slow-rank", options->slow_ranks,
                  "RANK=FACTOR: what its computation and copies take longer")
      .one_value_each();
  command
      .add_option("--slow-link", options->slow_links,
                  "RANK-RANK=FACTOR: what messages between both take longer")
      .one_value_each();
  command.add_option("--samples", options->samples, "steps that are drawn")
      .show_default()
      .check(whole(1, 1000000));
  command.add_option("--seed", options->seed, "where the random numbers start")
      .show_default()
      .check(whole(0, std::numeric_limits<std::int64_t>::max()));
  command.add_option("--jobs", options->jobs, "threads; default: as many as there are processors")
      .check(whole(1, 1024));
  add_transport_options(command, options->transport);
  add_cost_options(command, options->costs);
  add_recompute_option(command, options->costs);
  command.runs([options](const Output& output) { return run(*options, output); });
}

}  // namespace ppsim::cli
