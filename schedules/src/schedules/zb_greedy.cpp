#include <array>

#include "families/catalogue.hpp"
#include "families/orders/greedy_order.hpp"
#include "families/repetitions.hpp"
#include "families/settings.hpp"

// ZB-1p, ZB-1.5p, ZB-2p: an order made for the costs of each stage and each transfer, within a memory limit
// of p, 1.5p or 2p activations, by the greedy of Qi et al. (section 3.1). The authors' code runs it under
// eight combinations of three rules and keeps the one of the shortest span; so does this.
//
// Memory is counted as there: F allocates an activation, I frees what W does not need of it, W the rest. The
// part that W needs is 32 / (34 + 5 a s / h) in the paper's table 1, 0.37 and 0.43 in its models, and a half
// in the examples of its authors; with 100 percent an activation counts until its W, as with H1 and H2.
//
// Any limit from one activation on can be kept: after its warm-up a rank runs at most one F for each I.
//
// Where stages differ much and all microbatches fit into the limit, the authors' warm-up lets a rank run F
// that the rank above has not run yet, which then never runs them. Here a rank of the warm-up runs fewer F
// than the one above, or both run all.

namespace ppsim::schedules::catalogue {
namespace {

constexpr std::string_view kName = "zb-greedy";
constexpr int kMaxActivations = 1 << 24;
constexpr int kSlice = 0;  ///< its actions are of whole microbatches, and measured costs name the slice
constexpr int kPercent = 100;
constexpr int kKept = 50;

constexpr std::array<std::string_view, 5> kLimits = {"1", "2", "4", "8", "32"};
constexpr std::array<std::string_view, 3> kShares = {"0", "40", "100"};
constexpr std::array kSettings = {
    SettingInfo{"memory_limit",
                "activations of one stage that a rank may hold, 1 or more, counted with weight_share", "2p",
                kLimits},
    SettingInfo{"weight_share",
                "percent of an activation that counts from I to W, as in the paper's models; 100 counts all "
                "of it until W",
                "50", kShares},
};

/// One unit for each action, none for a transfer.
CostTable costs_of(const ScheduleParameters& parameters) {
  return parameters.costs ? *parameters.costs : unit_cost_table({});
}

GreedyProblem problem_of(const ScheduleParameters& parameters) {
  const CostTable costs = costs_of(parameters);
  const int p = parameters.ranks;
  GreedyProblem problem{
      .ranks = {},
      .microbatches = parameters.microbatches,
      .limit = std::int64_t{kPercent} * count_setting(parameters, "memory_limit").value_or(2 * p),
      .kept = count_setting(parameters, "weight_share").value_or(kKept)};
  for (int s = 0; s < p; ++s) {
    GreedyProblem::Rank rank{.forward = costs({OpKind::forward, s, -1, kSlice}),
                             .input = costs({OpKind::backward_input, s, -1, kSlice}),
                             .weight = costs({OpKind::backward_weight, s, -1, kSlice})};
    if (s > 0) rank.from_above = costs({OpKind::send_forward, s - 1, s, kSlice});
    if (s + 1 < p) rank.from_below = costs({OpKind::send_backward, s + 1, s, kSlice});
    problem.ranks.push_back(rank);
  }
  return problem;
}

/// Why no time of the schedule would fit in its type, or nothing.
std::string refused_times(const GreedyProblem& problem) {
  double total = 0;
  for (const GreedyProblem::Rank& rank : problem.ranks) {
    for (const Nanoseconds time : {rank.forward, rank.input, rank.weight, rank.from_above, rank.from_below}) {
      total += static_cast<double>(time);
    }
  }
  if (total * problem.microbatches < 0x1p62) return "";
  return "costs of all actions must add up to less than 2^62 ns\n";
}

std::string refusal(const ScheduleParameters& parameters) {
  return refused_count(parameters, "memory_limit", {1, kMaxActivations}) +
         refused_count(parameters, "weight_share", {0, kPercent}) + refused_times(problem_of(parameters));
}

/// The shortest of the orders under all rules, the first of equals.
GreedyOrder shortest_order(const GreedyProblem& problem) {
  GreedyOrder best;
  for (int rules = 0; rules < 8; ++rules) {
    GreedyOrder order = greedy_order(problem, {.short_warmup = (rules & 4) == 0,
                                               .prefer_backward = (rules & 2) == 0,
                                               .fill_gaps = (rules & 1) == 0});
    if (rules == 0 || order.span < best.span) best = std::move(order);
  }
  return best;
}

Expected<Schedule> generate(const ScheduleParameters& parameters) {
  const int p = parameters.ranks;
  PPSIM_ASSIGN_OR_RETURN(auto pipeline, make_chain(p, p, parameters.microbatches));
  const GreedyOrder order = shortest_order(problem_of(parameters));
  ScheduleBuilder builder{std::string(kName), std::move(pipeline)};
  for (int r = 0; r < p; ++r) {
    std::array<int, kOpKindCount> next = {};
    for (const OpKind kind : order.rows[as_size(r)]) {
      builder.add(kind, StageId(r), MicrobatchId(next[static_cast<std::size_t>(kind)]++));
    }
  }
  return std::move(builder).build();
}

}  // namespace

ScheduleInfo zb_greedy() {
  return {
      .name = kName,
      .summary = "zero-bubble order made for given costs within a memory limit",
      .paper = "Qi et al., Zero bubble pipeline parallelism, ICLR 2024, arXiv 2401.10241",
      .placement = "stage s on rank s",
      .constraints = "any ranks and microbatches; memory_limit of at least 1",
      .splits_backward = true,
      .uses_costs = true,
      .settings = kSettings,
      .refusal = refusal,
      .generate = generate,
      .repetitions = repeats_at_unit_costs,
      .forms = {},
  };
}

}  // namespace ppsim::schedules::catalogue
