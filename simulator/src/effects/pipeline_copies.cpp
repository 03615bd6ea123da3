#include "ppsim/simulator/effects/pipeline_copies.hpp"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "copy_routes.hpp"
#include "engine/trace_of_ends.hpp"
#include "ppsim/core/ir/overflow.hpp"
#include "ppsim/simulator/effects/item_places.hpp"

namespace ppsim::simulator {
namespace {

Error out_of_range(const std::string& what, int found, const std::string& expected) {
  return {ErrorCode::bad_argument, what, {.found = std::to_string(found), .expected = expected}};
}

Expected<void> check(const PipelineCopies& copies, const GpuNetwork& network) {
  for (const int count : {copies.tensor, copies.context, copies.data, network.node, network.domain})
    if (count < 1) return tl::unexpected(out_of_range("a count of GPUs out of range", count, "1 or more"));
  if (network.nics < 1 || network.node % network.nics != 0)
    return tl::unexpected(out_of_range("NICs that do not divide the GPUs of a node", network.nics,
                                       "a divisor of " + std::to_string(network.node)));
  for (const auto& [key, exchange] : copies.exchanges)
    if (exchange.count < 0 || exchange.each < 0)
      return tl::unexpected(out_of_range("exchanges out of range", exchange.count, "0 or more"));
  return {};
}

/// Turns the items of a compiled Program into activities: computation with its exchanges, transfers with
/// their ways, and the reductions behind the last action of each rank.
class CopyActivities {
 public:
  CopyActivities(const AnalyzedProgram& analyzed, const CompiledProgram& compiled, const BoundCosts& costs,
                 const PipelineCopies& copies)
      : analyzed_(analyzed),
        compiled_(compiled),
        costs_(costs),
        copies_(copies),
        places_(item_places(compiled, analyzed)),
        ways_of_items_(compiled.items.size(), kNoWay) {
    for (const Nanoseconds duration : costs.durations) builder_.duration(duration);
    find_ways();
  }

  /// Routes are the numbers of ways.
  ActivityGraph build() {
    ends_.push_back(0);
    for (std::uint32_t item = 1; item < compiled_.items.size(); ++item) ends_.push_back(add_item(item));
    for (std::size_t r = 0; r < copies_.reductions.size(); ++r)
      add_reduction(RankId(static_cast<std::int32_t>(r)));
    return std::move(builder_).build();
  }

  [[nodiscard]] const std::vector<Way>& ways() const { return ways_; }
  /// Of every item.
  [[nodiscard]] const std::vector<std::uint32_t>& ends() const { return ends_; }
  [[nodiscard]] const std::vector<std::uint32_t>& reductions() const { return reductions_; }

 private:
  static constexpr std::uint32_t kNoWay = Activity::kNoRoute;

  std::uint32_t way(const Way& way) {
    const auto [known, is_new] = numbers_.try_emplace(way, static_cast<std::uint32_t>(ways_.size()));
    if (is_new) ways_.push_back(way);
    return known->second;
  }

  void find_ways() {
    const Program& program = analyzed_.program();
    const ExecutionGraph& graph = analyzed_.timed_graph();
    std::size_t flow = 0;
    for (const Message& message : graph.messages) {
      ways_of_items_[compiled_.flow_items[flow++]] =
          way({Way::What::message, {program.rank_of(message.send), program.rank_of(message.receive)}});
    }
    for (const CollectiveMatch& match : graph.matches) {
      const auto members = graph.members_of(match);
      const OpKind kind = program.actions(members.front())[0].kind;
      const bool all = kind == OpKind::reduce_grad || kind == OpKind::unshard;
      Way found{all ? Way::What::data : Way::What::ranks, {}};
      for (const InstructionId member : members) found.ranks.push_back(program.rank_of(member));
      ways_of_items_[compiled_.flow_items[flow++]] = way(found);
    }
  }

  std::uint32_t add_item(std::uint32_t item) {
    const CompiledItem& own = compiled_.items[item];
    const CostClass* key = cost_class_of(compiled_, own);
    if (key != nullptr && ways_of_items_[item] == kNoWay) {
      const auto found = copies_.exchanges.find({key->kind, key->subject});
      if (found != copies_.exchanges.end() && found->second.count > 0 && copies_.tensor > 1)
        return add_exchanges(item, found->second);
    }
    const std::uint32_t way = ways_of_items_[item];
    const bool meets = way != kNoWay && ways_[way].what == Way::What::data;
    const std::uint32_t activity =
        builder_.add({.duration = own.duration, .route = way, .joint = meets ? Joint::data : Joint::none});
    wait_for_operands(activity, item);
    return activity;
  }

  void wait_for_operands(std::uint32_t activity, std::uint32_t item) {
    const CompiledItem& own = compiled_.items[item];
    builder_.wait(activity, ends_[own.first]);
    if (own.second != own.first) builder_.wait(activity, ends_[own.second]);
  }

  /// Computation in as many parts as there are exchanges, whose times add up to the cost of the action.
  struct Parts {
    std::uint32_t first;  ///< durations: of the first part, which has the remainder
    std::uint32_t part;
    std::uint32_t exchange;
  };

  const Parts& parts(std::uint32_t duration, const TensorExchange& exchange) {
    const auto [known, is_new] = parts_.try_emplace(duration);
    if (is_new) {
      const Nanoseconds cost = costs_.durations[duration];
      const Nanoseconds each = std::min(exchange.each, cost / exchange.count);
      const Nanoseconds rest = exchange.beside ? cost : cost - each * exchange.count;
      const Nanoseconds part = rest / exchange.count;
      known->second = {builder_.duration(rest - part * (exchange.count - 1)), builder_.duration(part),
                       builder_.duration(each)};
    }
    return known->second;
  }

  std::uint32_t add_exchanges(std::uint32_t item, const TensorExchange& exchange) {
    const std::uint32_t duration = compiled_.items[item].duration;
    const Parts of_parts = parts(duration, exchange);
    const RankId rank = places_[item].rank;
    std::uint32_t computed = 0;
    std::uint32_t exchanged = 0;
    for (int i = 0; i < exchange.count; ++i) {
      const std::uint32_t part = builder_.add({.duration = i == 0 ? of_parts.first : of_parts.part});
      const std::uint32_t met = builder_.add(
          {.duration = of_parts.exchange, .route = way({Way::What::tensor, {rank}}), .joint = Joint::tensor});
      wait_for_part(part, {item, i, computed, exchanged, exchange.beside});
      if (exchange.beside) {
        wait_for_part(met, {item, i, computed, exchanged, true});
      } else {
        builder_.wait(met, part);
      }
      computed = part;
      exchanged = met;
    }
    if (!exchange.beside) return exchanged;
    const std::uint32_t both = builder_.add({.duration = CompiledProgram::kJoin});
    builder_.wait(both, computed);
    builder_.wait(both, exchanged);
    return both;
  }

  /// The activities that precede a part of an item.
  struct Before {
    std::uint32_t item;
    int part;
    std::uint32_t computed;
    std::uint32_t exchanged;
    bool beside;
  };
  void wait_for_part(std::uint32_t activity, const Before& before) {
    if (before.part == 0) return wait_for_operands(activity, before.item);
    builder_.wait(activity, before.exchanged);
    if (before.beside) builder_.wait(activity, before.computed);
  }

  void add_reduction(RankId rank) {
    const Nanoseconds cost = copies_.reductions[rank];
    const std::uint32_t last = compiled_.rows[rank].last_item;
    const std::uint32_t activity = builder_.add(
        {.duration = builder_.duration(cost), .route = way({Way::What::data, {rank}}), .joint = Joint::data});
    builder_.wait(activity, ends_[last]);
    reductions_.push_back(activity);
  }

  const AnalyzedProgram& analyzed_;
  const CompiledProgram& compiled_;
  const BoundCosts& costs_;
  const PipelineCopies& copies_;
  std::vector<ItemPlace> places_;
  std::vector<std::uint32_t> ways_of_items_;
  std::vector<Way> ways_;
  std::map<Way, std::uint32_t> numbers_;
  std::map<std::uint32_t, Parts> parts_;  ///< by durations
  ActivityGraphBuilder builder_;
  std::vector<std::uint32_t> ends_;
  std::vector<std::uint32_t> reductions_;
};

/// The end of each item, or of each reduction, in a copy.
class CopyEnds {
 public:
  CopyEnds(const ActivityGraph& graph, const CopyGrid& grid, std::vector<Instant> ends)
      : graph_(graph), grid_(grid), ends_(std::move(ends)) {}

  [[nodiscard]] Instant at(std::uint32_t copy, std::uint32_t activity) const {
    return ends_[first_member(grid_, graph_.activities[activity].joint, copy) * graph_.size() + activity];
  }
  [[nodiscard]] std::vector<Instant> of_items(std::uint32_t copy,
                                              const std::vector<std::uint32_t>& items) const {
    std::vector<Instant> result;
    for (const std::uint32_t item : items) result.push_back(at(copy, item));
    return result;
  }

 private:
  const ActivityGraph& graph_;
  CopyGrid grid_;
  std::vector<Instant> ends_;
};

/// The activities of all GPUs; one that several share counts for each of them.
std::int64_t count_activities(const ActivityGraph& graph, std::int64_t copies) {
  return static_cast<std::int64_t>(graph.size() - 1) * copies;
}

std::int64_t count_simulated(const ActivityGraph& graph, const CopyGrid& grid) {
  std::int64_t count = 0;
  for (std::size_t i = 1; i < graph.size(); ++i)
    count += grid.size() / members(grid, graph.activities[i].joint);
  return count;
}

/// Of the longest of the copies: its last instruction, and its last reduction.
std::pair<Nanoseconds, Nanoseconds> last_ends(const CopyEnds& ends, const CopyActivities& made,
                                              const CopyGrid& grid,
                                              const std::vector<std::uint32_t>& last_items) {
  Nanoseconds makespan = 0;
  Nanoseconds reduced = 0;
  for (std::uint32_t copy = 0; copy < grid.size(); ++copy) {
    for (const std::uint32_t item : last_items)
      makespan = std::max(makespan, ends.at(copy, made.ends()[item]).time);
    for (const std::uint32_t reduction : made.reductions())
      reduced = std::max(reduced, ends.at(copy, reduction).time);
  }
  return {makespan, std::max(reduced, makespan)};
}

}  // namespace

Expected<tl::expected<CopiedRun, Stuck>> simulate_copies(const AnalyzedProgram& analyzed,
                                                         const CostTable& costs, const PipelineCopies& copies,
                                                         const GpuNetwork& network) {
  PPSIM_RETURN_IF_ERROR(check(copies, network));
  const auto compiled = compile(analyzed);
  if (!compiled) return tl::expected<CopiedRun, Stuck>(tl::unexpect, compiled.error());
  PPSIM_ASSIGN_OR_RETURN(const BoundCosts bound, bind_costs(*compiled, costs));
  CopyActivities made(analyzed, *compiled, bound, copies);
  ActivityGraph graph = made.build();
  const CopyLinks links(copies, network, analyzed.program().pipeline().ranks());
  const CopyRoutes routes = copy_routes(links, made.ways(), copies, copies.folding);
  for (Activity& activity : graph.activities)
    if (activity.route != Activity::kNoRoute) activity.route *= routes.grid.size();
  Flows flows(routes.routes, links.links());
  const CopyEnds ends(graph, routes.grid, run_activities(graph, routes.grid, flows));
  CopiedRun run{.trace = trace_of_ends(*compiled, analyzed.timed_graph(), ends.of_items(0, made.ends())),
                .links = links.links(),
                .uses = flows.uses(),
                .simulated_copies = static_cast<int>(routes.grid.size()),
                .activities = count_simulated(graph, routes.grid),
                .all_activities = count_activities(graph, copies.size())};
  std::tie(run.makespan, run.reduced) = last_ends(ends, made, routes.grid, compiled->last_items);
  return tl::expected<CopiedRun, Stuck>(std::move(run));
}

}  // namespace ppsim::simulator
