#include <algorithm>
#include <array>
#include <limits>

#include "families/blocks/v_block_orders.hpp"
#include "families/blocks/v_blocks.hpp"
#include "families/catalogue.hpp"
#include "families/repetitions.hpp"
#include "families/settings.hpp"

// The adaptive scheduler of the V placement: an order made for the costs of each stage and each transfer that
// never holds more than memory_limit activations of one stage on a rank.
//
// As in the authors' code (appendix A of the paper), blocks of six slots that come close to the
// limit are repeated, their warm-up and cool-down put in order, and what has the shortest span is taken, of
// equal ones the shortest makespan. That code moves actions only slot by slot, for equal costs; here each
// order is also run under the costs themselves, where a rank that would wait lets what is ready overtake,
// within the limit. ZB-V, V-Half and V-Min are among the candidates, so that none of them is shorter where
// its peak is within the limit.
//
// Below what a block of six slots can have (V-Min's), where that code finds nothing, the interval is longer;
// two activations suffice, for one microbatch after the other.
//
// For many microbatches the candidates are compared at 4p of them, and by how long each further one takes.

namespace ppsim::schedules::catalogue {
namespace {

constexpr std::string_view kName = "v-adaptive";
constexpr int kMaxActivations = 1 << 24;
constexpr int kSlice = 0;  ///< its actions are of whole microbatches, and measured costs name the slice

constexpr std::array<std::string_view, 6> kLimits = {"2", "3", "4", "7", "12", "32"};
constexpr std::array kSettings = {
    SettingInfo{"memory_limit", "activations of one stage that a rank may hold, 2 or more", "2p", kLimits}};

CostTable costs_of(const ScheduleParameters& parameters) {
  return parameters.costs ? *parameters.costs : unit_cost_table({});
}

int limit_of(const ScheduleParameters& parameters) {
  return count_setting(parameters, "memory_limit").value_or(2 * parameters.ranks);
}

VProblem problem_of(const ScheduleParameters& parameters, const CostTable& costs) {
  const int p = parameters.ranks;
  VProblem problem{.ranks = {}, .microbatches = parameters.microbatches, .limit = limit_of(parameters)};
  for (int r = 0; r < p; ++r) {
    const int first = r;
    const int second = 2 * p - 1 - r;
    VProblem::Rank rank{.duration = {costs({OpKind::forward, first, -1, kSlice}),
                                     costs({OpKind::forward, second, -1, kSlice}),
                                     costs({OpKind::backward_input, second, -1, kSlice}),
                                     costs({OpKind::backward_input, first, -1, kSlice}),
                                     costs({OpKind::backward_weight, second, -1, kSlice}),
                                     costs({OpKind::backward_weight, first, -1, kSlice})}};
    if (r > 0) {
      rank.transfer[0] = costs({OpKind::send_forward, first - 1, first, kSlice});
      rank.transfer[2] = costs({OpKind::send_backward, second + 1, second, kSlice});
    }
    if (r + 1 < p) {
      rank.transfer[1] = costs({OpKind::send_forward, second - 1, second, kSlice});
      rank.transfer[3] = costs({OpKind::send_backward, first + 1, first, kSlice});
    }
    problem.ranks.push_back(rank);
  }
  return problem;
}

/// Why no time of the schedule would fit in its type, or nothing.
std::string refused_times(const VProblem& problem) {
  double total = 0;
  for (const VProblem::Rank& rank : problem.ranks) {
    for (const Nanoseconds time : rank.duration) total += static_cast<double>(time);
    for (const Nanoseconds time : rank.transfer) total += static_cast<double>(time);
  }
  constexpr double kMax = 0x1p62;
  if (total * problem.microbatches < kMax) return "";
  return "costs of all actions must add up to less than 2^62 ns\n";
}

std::string refusal(const ScheduleParameters& parameters) {
  const std::string limit = refused_count(parameters, "memory_limit", {2, kMaxActivations});
  if (!limit.empty()) return limit + "a rank holds both of its stages of a microbatch at once\n";
  return refused_times(problem_of(parameters, costs_of(parameters)));
}

/// Where an order comes from: a schedule of the registry where it has a name, else a block.
struct Origin {
  std::string_view name;
  VBlock block;
  VEnds ends;
  VOrder tried;  ///< its order at the microbatches that are tried
};

/// How an order is run.
enum class Treatment : std::uint8_t {
  as_is,
  overtaking,    ///< whatever is ready may overtake
  weights_last,  ///< likewise, W only where nothing else is ready
  evened_out,    ///< as weights_last would have it if all costs were alike
};

struct Candidate {
  std::size_t origin = 0;
  Treatment treatment = Treatment::as_is;
  Nanoseconds time = std::numeric_limits<Nanoseconds>::max();  ///< span
  Nanoseconds makespan = 0;                                    ///< for equal spans
};

class Search {
 public:
  explicit Search(const ScheduleParameters& parameters)
      : parameters_(parameters),
        tried_(std::min(parameters.microbatches, 4 * parameters.ranks)),
        real_(problem_of(parameters, costs_of(parameters))),
        even_(problem_of(parameters, unit_cost_table({}))) {}

  Expected<Schedule> run() {
    find_origins();
    std::vector<Candidate> shortest;
    for (std::size_t i = 0; i < origins_.size(); ++i) shortest.push_back(tried({i, Treatment::as_is}));
    keep_shortest(shortest, kTreated);
    const std::vector<Candidate> kept = shortest;
    for (const Candidate& candidate : kept) {
      for (const Treatment treatment : kTreatments) shortest.push_back(tried({candidate.origin, treatment}));
    }
    keep_shortest(shortest, shortest.size());
    // The last origin is complete for any number of microbatches.
    shortest.push_back({origins_.size() - 1});
    return first_complete(shortest);
  }

 private:
  static constexpr std::size_t kTreated = 6;
  static constexpr std::array kTreatments = {Treatment::evened_out, Treatment::weights_last,
                                             Treatment::overtaking};

  /// Fewer for thousands of ranks and microbatches; the first ones are the best for equal costs.
  [[nodiscard]] int blocks() const {
    const std::int64_t actions = std::int64_t{kVKinds} * parameters_.ranks * tried_;
    return static_cast<int>(std::clamp<std::int64_t>((std::int64_t{1} << 21) / actions, 4, 20));
  }

  void find_origins() {
    const int ranks = parameters_.ranks;
    const int limit = real_.limit;
    for (const VBlock& block : uniform_blocks(ranks, std::min(limit, 2 * ranks), blocks())) {
      origins_.push_back({.name = {}, .block = block, .ends = {.even_begin = true, .tight_end = true}});
      origins_.push_back({.name = {}, .block = block, .ends = {.tight_end = true}});
    }
    for (const std::string_view name : {"zb-v", "v-half", "v-min"}) origins_.push_back({.name = name});
    origins_.push_back({.name = {}, .block = stretched_block(ranks, tried_, limit)});
    for (Origin& origin : origins_) origin.tried = order_at(origin, tried_);
  }

  [[nodiscard]] VOrder order_at(const Origin& origin, int microbatches) const {
    if (origin.name.empty()) return repeated_order(origin.block, microbatches, origin.ends);
    const auto schedule =
        ppsim::generate(origin.name, {.ranks = parameters_.ranks, .microbatches = microbatches});
    return order_of(schedule.value());
  }

  [[nodiscard]] Expected<Schedule> first_complete(const std::vector<Candidate>& candidates) {
    const int m = parameters_.microbatches;
    VRun run;
    for (std::size_t i = 0; i < candidates.size() && !run.complete; ++i) {
      run = treated(order_at(origins_[candidates[i].origin], m), candidates[i].treatment, m);
    }
    return schedule_of(std::string(kName), run.order, m);
  }

  /// The run of an order of so many microbatches.
  [[nodiscard]] VRun treated(const VOrder& order, Treatment treatment, int microbatches) {
    real_.microbatches = even_.microbatches = microbatches;
    switch (treatment) {
      case Treatment::as_is:
        return run_order(real_, order, ReorderPolicy::none);
      case Treatment::overtaking:
        return run_order(real_, order, ReorderPolicy::all);
      case Treatment::weights_last:
        return run_order(real_, order, ReorderPolicy::but_last);
      case Treatment::evened_out: {
        VRun evened = run_order(even_, order, ReorderPolicy::but_last);
        return evened.complete ? run_order(real_, evened.order, ReorderPolicy::none) : evened;
      }
    }
    return {};
  }

  [[nodiscard]] Candidate tried(Candidate candidate) {
    const VRun run = treated(origins_[candidate.origin].tried, candidate.treatment, tried_);
    if (run.complete) candidate.time = run.span + (parameters_.microbatches - tried_) * run.per_microbatch;
    candidate.makespan = run.makespan;
    return candidate;
  }

  static void keep_shortest(std::vector<Candidate>& candidates, std::size_t count) {
    std::ranges::stable_sort(candidates, [](const Candidate& a, const Candidate& b) {
      return std::pair(a.time, a.makespan) < std::pair(b.time, b.makespan);
    });
    candidates.resize(std::min(count, candidates.size()));
  }

  const ScheduleParameters& parameters_;
  int tried_;  // microbatches at which candidates are compared
  VProblem real_;
  VProblem even_;  // all costs alike
  std::vector<Origin> origins_;
};

Expected<Schedule> generate(const ScheduleParameters& parameters) { return Search(parameters).run(); }

// At equal costs, computed for p = 2..16 and every limit from V-Min's peak on: two activations more save a
// half of F, I and W, down to nothing at 2p. The authors' code has the same for p <= 8, at the limits that it
// reaches.
std::optional<Nanoseconds> span(const ScheduleParameters& parameters, const StageCosts& costs) {
  const int p = parameters.ranks;
  const int limit = limit_of(parameters);
  const bool even = costs.backward_input == costs.forward && costs.backward_weight == costs.forward;
  if (parameters.costs || !even || (costs.transfer > 0 && p > 1)) return std::nullopt;
  if (parameters.microbatches < 2 * p - 1 || limit < (p + 4) / 3 * 2) return std::nullopt;
  const int idle = limit == 2 * p - 1 ? 3 : std::max(0, 6 * p - 1 - 3 * limit);
  return (Nanoseconds{6} * parameters.microbatches + idle) * costs.forward;
}

}  // namespace

ScheduleInfo v_adaptive() {
  return {
      .name = kName,
      .summary = "V placement, made for given costs within a memory limit",
      .paper = kControllableMemory,
      .placement = "down the ranks and back up: stages r and 2p - 1 - r on rank r",
      .constraints = "any ranks and microbatches; memory_limit of at least 2",
      .max_ranks = 256,
      .default_chunks = 2,
      .min_chunks = 2,
      .max_chunks = 2,
      .splits_backward = true,
      .uses_costs = true,
      .settings = kSettings,
      .refusal = refusal,
      .generate = generate,
      .repetitions = repeats_at_unit_costs,
      .forms = {.span = span, .bubble = "0 for F = I, I = W"},
  };
}

}  // namespace ppsim::schedules::catalogue
