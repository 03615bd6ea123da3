#include <algorithm>
#include <limits>
#include <queue>
#include <set>

#include "plan/bounded_plans.hpp"
#include "plan/bounds.hpp"
#include "plan/row.hpp"
#include "plan/space.hpp"
#include "plan/structure.hpp"
#include "ppsim/core/ir/concatenated.hpp"
#include "ppsim/core/ir/transports.hpp"
#include "ppsim/planner/plan.hpp"

namespace ppsim::planner {
namespace {

/// How much is known of the plans of a node, from a whole parallelism to one plan.
enum class Depth : std::uint8_t { parallelism, schedule, simulated, measured };

constexpr std::size_t kMaxTries = 16;  // of one parallelism, for a first plan

/// The objective, and the other of time and memory.
struct Score {
  std::int64_t first = 0;
  std::int64_t second = 0;
  friend auto operator<=>(const Score&, const Score&) = default;
};

/// Plans that have something in common, and what none of them is below.
struct Node {
  Score score;
  LowerBound bound;
  Depth depth = Depth::parallelism;
  std::uint64_t number = 0;  ///< in the order of making, which decides between equals
  PlanChoice choice;
  bool overlaps = false;      ///< of a parallelism: only schedules that overlap F and B
  std::size_t recompute = 0;  ///< of a parallelism: index into Space::recomputes
  Bytes own_peak = 0;         ///< of a parallelism: what this recompute needs at least
  RowForm form;
  std::shared_ptr<const PlacedCosts> costs;
  std::shared_ptr<const PlanRow> row;
};

struct Later {
  bool operator()(const Node& a, const Node& b) const {
    if (a.score != b.score) return a.score > b.score;
    if (a.depth != b.depth) return a.depth < b.depth;
    return a.number > b.number;
  }
};

class PlanSearch {
 public:
  PlanSearch(const PlanRequest& request, Space space) : request_(request), space_(std::move(space)) {}

  Expected<Plan> run() {
    const Parallelisms parallelisms = space_.parallelisms();
    plan_.counts.parallelisms = static_cast<std::int64_t>(parallelisms.possible.size());
    plan_.unused = space_.unused(parallelisms.possible);
    for (const GpuParallelism& parallelism : parallelisms.possible) {
      if (stopped()) return end(false);
      for (std::size_t r = 0; r < (space_.starts_with_none() ? 1 : space_.recomputes().size()); ++r) {
        add_parallelism(parallelism, r, false);
        if (pairs_save(request_.work)) add_parallelism(parallelism, r, true);
      }
    }
    if (made_ == 0 && plan_.counts.misfits == 0) {
      return refusal_ ? tl::unexpected(*refusal_) : parallelisms.none("no parallelism is possible");
    }
    while (!queue_.empty()) {
      const Node node = queue_.top();
      queue_.pop();
      plan_.counts.proved = node.bound.step;
      if (stopped()) return end(false);
      if (is_done(node)) break;
      if (is_dominated(node)) continue;
      PPSIM_RETURN_IF_ERROR(descend(node));
    }
    return end(true);
  }

 private:
  bool stopped() {
    if (request_.progress) {
      plan_.counts.best = best_ ? &*best_ : nullptr;
      plan_.counts.waiting = static_cast<std::int64_t>(queue_.size());
      request_.progress(plan_.counts);
    }
    return request_.stopped && request_.stopped();
  }

  [[nodiscard]] Score score_of(const LowerBound& bound, int nodes) const {
    switch (request_.objective) {
      case PlanObjective::time:
        return {bound.step, bound.peak};
      case PlanObjective::tokens_per_dollar:
        return {checked_multiply(bound.step, space_.cluster(nodes).gpu_count()), bound.peak};
      case PlanObjective::memory:
        return {bound.peak, bound.step};
    }
    return {bound.step, bound.peak};
  }

  /// No plan of the node, nor any after it, is among the best or on the front.
  [[nodiscard]] bool is_done(const Node& node) const {
    if (!request_.prunes || plan_.best.empty() || !is_full()) return false;
    const double most = static_cast<double>(first_score_) * std::max(1.0, request_.front);
    return static_cast<double>(node.score.first) > most;
  }
  [[nodiscard]] bool is_full() const { return static_cast<int>(plan_.best.size()) >= request_.top; }
  /// No plan of the node is among the best, nor on the front: all need more of both than one that is there.
  [[nodiscard]] bool is_dominated(const Node& node) const {
    if (!request_.prunes || node.score.second < min_second_) return false;
    return is_full() || (node.depth != Depth::parallelism && groups_.contains(group_of(node.choice)));
  }
  /// Plans that differ in chunks and layout only: the best stands for them.
  [[nodiscard]] static std::string group_of(const PlanChoice& choice) {
    PlanChoice group = choice;
    group.chunks = std::nullopt;
    group.layout = LayoutRule::even;
    return concatenated(group.nodes, ' ', group);
  }

  [[nodiscard]] Bytes capacity(int nodes) const {
    return space_.cluster(nodes).gpu.memory_bytes - request_.min_spare_bytes;
  }

  void push(Node node) {
    if (request_.prunes && node.bound.peak > capacity(node.choice.nodes)) {
      ++plan_.counts.misfits;
      return;
    }
    // Without pruning, bounds decide nothing: whatever is not measured comes first.
    if (request_.prunes || node.depth == Depth::measured)
      node.score = score_of(node.bound, node.choice.nodes);
    node.number = ++made_;
    queue_.push(std::move(node));
  }

  void add_parallelism(const GpuParallelism& parallelism, std::size_t recompute, bool overlaps) {
    Node node{.overlaps = overlaps, .recompute = recompute};
    node.choice = {.nodes = parallelism.nodes,
                   .parallelism = parallelism.parallelism,
                   .checkpoints = space_.recomputes()[recompute].checkpoints};
    node.choice.parallelism.recompute = space_.recomputes()[recompute].stages;
    const auto& chain = chain_of(parallelism.parallelism.pipeline);
    const Workload work = with_min_factors(workload_of(request_, node.choice), overlaps);
    auto costs = analytic_costs(work, chain->pipeline);
    if (!costs) {
      refusal_ = costs.error();
      return;
    }
    const PlacedCosts placed(work, chain, *std::move(costs));
    node.bound = placed.of_any_placement(parallelism.parallelism.microbatches(), overlaps);
    node.own_peak = node.bound.peak;
    // Any recompute adds to the costs of none, but needs less: only its time is bounded by that of none.
    if (opens_others(node)) node.bound.peak = 0;
    push(std::move(node));
  }

  /// True where the node stands for the plans with recompute, too.
  [[nodiscard]] bool opens_others(const Node& node) const {
    return node.recompute == 0 && space_.starts_with_none() && space_.recomputes().size() > 1;
  }

  const std::shared_ptr<const Placement>& chain_of(int ranks) {
    auto& chain = chains_[ranks];
    if (chain) return chain;
    Placement made{*make_chain(ranks, ranks, 1), {}};
    for (std::int32_t s = 0; s < ranks; ++s)
      made.producers.push_back(s == 0 ? std::vector<StageId>() : std::vector<StageId>{StageId(s - 1)});
    return chain = std::make_shared<const Placement>(std::move(made));
  }

  Expected<void> descend(const Node& node) {
    switch (node.depth) {
      case Depth::parallelism:
        open_spread(node);
        break;
      case Depth::schedule:
        return simulate_node(node);
      case Depth::simulated:
        measure_node(node);
        break;
      case Depth::measured:
        accept(node);
    }
    return {};
  }

  /// True where less than this is too much memory, or no less than a plan needs that is better.
  [[nodiscard]] bool is_too_large(const Node& node) const {
    if (!request_.prunes) return false;
    const LowerBound own{node.bound.step, node.own_peak};
    return node.own_peak > capacity(node.choice.nodes) ||
           (is_full() && score_of(own, node.choice.nodes).second >= min_second_);
  }

  void open_spread(const Node& node) {
    for (std::size_t r = 1; opens_others(node) && r < space_.recomputes().size(); ++r)
      add_parallelism({node.choice.nodes, node.choice.parallelism}, r, node.overlaps);
    if (is_too_large(node)) return;
    opened_.clear();
    const auto& placed =
        placements_.of(space_, node.choice.parallelism.pipeline, node.choice.parallelism.microbatches());
    const auto overlaps = pairs_save(request_.work) ? std::optional(node.overlaps) : std::nullopt;
    for (BoundedPlan& plan : bounded_plans({request_, space_, node.choice, placed, overlaps}))
      add_plan(std::move(plan));
    find_first();
  }

  /// A plan that fits, for whoever interrupts the search before the best is reached.
  void find_first() {
    std::ranges::sort(opened_, {}, [](const Node& node) { return node.bound.step; });
    for (std::size_t i = 0; i < std::min(kMaxTries, opened_.size()) && !best_; ++i) {
      const auto moments = moments_of_node(opened_[i]);
      if (!moments || opened_[i].costs->peak_of(**moments) > capacity(opened_[i].choice.nodes)) continue;
      measure_node(opened_[i]);
    }
    opened_.clear();
  }

  void add_plan(BoundedPlan plan) {
    ++plan_.counts.bounded;
    Node next{.bound = plan.bound,
              .depth = Depth::schedule,
              .choice = std::move(plan.choice),
              .form = plan.form,
              .costs = std::move(plan.costs)};
    if (!best_ && request_.prunes) opened_.push_back(next);
    push(std::move(next));
  }

  [[nodiscard]] static StructureKey key_of(const PlanChoice& choice) {
    const auto info = find_schedule(choice.schedule);
    return {(*info)->name, choice.chunks.value_or(0), choice.parallelism.pipeline,
            choice.parallelism.microbatches(), choice.parallelism.recompute.any(Recompute::full)};
  }

  [[nodiscard]] Expected<AnalyticCosts> costs_of(const Node& node) const {
    return analytic_costs(workload_of(request_, node.choice), node.costs->placement().pipeline);
  }

  [[nodiscard]] Expected<std::shared_ptr<const RowMoments>> moments_of_node(const Node& node) {
    const StructureKey key = key_of(node.choice);
    CostTable costs;  // which most orders do without
    if (follows_costs(key)) {
      PPSIM_ASSIGN_OR_RETURN(auto own, costs_of(node));
      costs = std::move(own.tables.costs);
    }
    return structures_.moments(key, costs);
  }

  /// The times on independent queues are what no transport is faster than.
  Expected<void> simulate_node(const Node& node) {
    const PlanChoice& choice = node.choice;
    const auto moments = moments_of_node(node);
    if (!moments) return {};  // the schedule refuses these parameters
    Node next = node;
    next.bound.peak = std::max(node.bound.peak, node.costs->peak_of(**moments));
    if (request_.prunes && next.bound.peak > capacity(choice.nodes)) {
      note_misfit(next);
      ++plan_.counts.misfits;
      return {};
    }
    next.score = score_of(next.bound, choice.nodes);
    if (is_dominated(next)) return {};
    PPSIM_ASSIGN_OR_RETURN(const auto costs, costs_of(node));
    const Tables& tables = costs.tables;
    const auto compiled = structures_.compiled(key_of(choice), tables.costs);
    if (!compiled) return {};
    PPSIM_ASSIGN_OR_RETURN(const auto bound, bind_costs(**compiled, tables.costs));
    ++plan_.counts.simulated;
    next.depth = Depth::simulated;
    next.bound.step = node.costs->step_of(simulate(**compiled, bound, scratch_));
    push(std::move(next));
    return {};
  }

  void note_misfit(const Node& node) {
    if (misfit_ && misfit_->bound.step <= node.bound.step) return;
    misfit_ = node;
  }

  /// One that is refused, such as a schedule that hangs on this transport, is none.
  void measure_node(const Node& node) {
    const auto step = evaluate_choice(request_, node.choice);
    if (!step) return;
    ++plan_.counts.measured;
    const PlanRow row = row_of(*step, node.choice);
    if (row.peak_bytes > capacity(node.choice.nodes)) return note_misfit(node);
    Node next = node;
    next.depth = Depth::measured;
    next.bound = {row.step, row.peak_bytes};
    next.row = std::make_shared<const PlanRow>(row);
    const Score score = score_of(next.bound, next.choice.nodes);
    if (!best_ || score < best_score_) {
      best_ = row;
      best_score_ = score;
    }
    push(std::move(next));
  }

  void accept(const Node& node) {
    if (plan_.best.empty()) first_score_ = node.score.first;
    if (!is_full() && groups_.insert(group_of(node.choice)).second) plan_.best.push_back(*node.row);
    if (node.score.second < min_second_) {
      const double most = static_cast<double>(first_score_) * std::max(1.0, request_.front);
      if (static_cast<double>(node.score.first) <= most) plan_.front.push_back(*node.row);
      min_second_ = node.score.second;
    }
  }

  Expected<Plan> end(bool complete) {
    plan_.complete = complete;
    if (!complete && plan_.best.empty() && best_) plan_.best.push_back(*best_);
    plan_.counts.best = nullptr;
    if (misfit_ && !plan_.best.empty() && misfit_->bound.step < plan_.best.front().step) {
      const auto row = plan_row(request_, misfit_->choice);
      if (row && row->step < plan_.best.front().step) plan_.fastest_misfit = *row;
    }
    return std::move(plan_);
  }

  const PlanRequest& request_;
  Space space_;
  Placements placements_;
  Structures structures_;
  std::map<int, std::shared_ptr<const Placement>> chains_;
  SimulationScratch scratch_;
  std::priority_queue<Node, std::vector<Node>, Later> queue_;
  std::uint64_t made_ = 0;
  Plan plan_;
  std::optional<PlanRow> best_;
  Score best_score_;
  std::int64_t first_score_ = 0;
  std::int64_t min_second_ = std::numeric_limits<std::int64_t>::max();
  std::set<std::string> groups_;  ///< of those in `best`
  std::vector<Node>
      opened_;  ///< plans of the parallelism that was opened last, while none is known that fits
  std::optional<Node> misfit_;
  std::optional<Error> refusal_;
};

/// The plan that needs least, whatever there is.
Expected<std::optional<PlanRow>> min_memory(const PlanRequest& request) {
  PlanRequest unlimited = request;
  unlimited.objective = PlanObjective::memory;
  unlimited.top = 1;
  unlimited.front = 1;
  unlimited.min_spare_bytes = std::numeric_limits<Bytes>::min() / 2;
  unlimited.progress = {};  // its plans do not fit: none is the best so far
  PPSIM_ASSIGN_OR_RETURN(const auto space, Space::make(unlimited));
  return PlanSearch(unlimited, space).run().map([](const Plan& found) {
    return found.best.empty() ? std::nullopt : std::optional(found.best.front());
  });
}

}  // namespace

Expected<Plan> plan(const PlanRequest& request) {
  if (!request.transport.empty()) {
    PPSIM_RETURN_IF_ERROR(transport(request.transport));
  }
  PPSIM_ASSIGN_OR_RETURN(auto space, Space::make(request));
  auto found = PlanSearch(request, std::move(space)).run();
  if (!found || !found->best.empty() || !found->complete) return found;
  PPSIM_ASSIGN_OR_RETURN(auto least, min_memory(request));
  found->tightest = std::move(least);
  return found;
}

}  // namespace ppsim::planner
