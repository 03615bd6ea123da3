#include "ppsim/simulator/effects/shared_links.hpp"

#include <map>
#include <optional>

#include "activities.hpp"
#include "device_loads.hpp"
#include "engine/event_run.hpp"
#include "engine/trace_of_ends.hpp"

namespace ppsim::simulator {
namespace {

/// The links of a NodeNetwork, made as they are needed.
class NodeLinks {
 public:
  NodeLinks(const NodeNetwork& network, int ranks)
      : network_(network), nodes_((ranks + network.ranks - 1) / network.ranks) {}

  [[nodiscard]] int node_of(RankId rank) const {
    return network_.cyclic ? rank.value() % nodes_ : rank.value() / network_.ranks;
  }
  std::uint32_t nic(RankId rank, bool outward) {
    const int local = network_.cyclic ? rank.value() / nodes_ : rank.value() % network_.ranks;
    std::string name = "node " + std::to_string(node_of(rank));
    if (network_.nics > 1) name += " NIC " + std::to_string(local % network_.nics);
    return link(name + (outward ? " out" : " in"), network_.speed);
  }
  void add_core(std::uint32_t streams, std::vector<LinkTake>& taken) {
    if (network_.core > 0) taken.push_back({link("core", network_.core), streams});
  }
  [[nodiscard]] std::vector<Link> links() && { return std::move(links_); }

 private:
  std::uint32_t link(const std::string& name, Rate capacity) {
    const auto [known, is_new] = numbers_.try_emplace(name, static_cast<std::uint32_t>(links_.size()));
    if (is_new) links_.push_back({name, capacity});
    return known->second;
  }

  const NodeNetwork& network_;
  int nodes_;
  std::map<std::string, std::uint32_t> numbers_;
  std::vector<Link> links_;
};

}  // namespace

std::vector<Rate> fair_rates(std::span<const std::vector<LinkTake>> flows, std::span<const Link> links) {
  Routes routes;
  for (const auto& flow : flows) routes.add(flow);
  Flows in_flight(routes, links);
  std::vector<std::optional<std::uint32_t>> numbers;
  for (std::uint32_t route = 0; route < routes.size(); ++route) {
    numbers.emplace_back();
    if (in_flight.takes_links(route)) numbers.back() = in_flight.begin(route, 1, 0);
  }
  in_flight.settle(0);
  std::vector<Rate> rates;
  for (const auto& number : numbers) rates.push_back(number ? in_flight.rate(*number) : kFullSpeed);
  return rates;
}

SharedLinks shared_links(const AnalyzedProgram& analyzed, const NodeNetwork& network) {
  const Program& program = analyzed.program();
  const ExecutionGraph& graph = analyzed.timed_graph();
  NodeLinks nodes(network, program.pipeline().ranks());
  SharedLinks result;
  for (const Message& message : graph.messages) {
    std::vector<LinkTake>& taken = result.taken.emplace_back();
    const RankId from = program.rank_of(message.send);
    const RankId to = program.rank_of(message.receive);
    if (nodes.node_of(from) == nodes.node_of(to)) continue;
    taken = {{nodes.nic(from, true)}, {nodes.nic(to, false)}};
    nodes.add_core(1, taken);
  }
  for (const CollectiveMatch& match : graph.matches) {
    std::map<int, RankId> first_of_node;
    for (const InstructionId member : graph.members_of(match)) {
      const RankId rank = program.rank_of(member);
      first_of_node.try_emplace(nodes.node_of(rank), rank);
    }
    std::vector<LinkTake>& taken = result.taken.emplace_back();
    if (first_of_node.size() < 2) continue;
    for (const auto& [node, rank] : first_of_node) {
      taken.push_back({nodes.nic(rank, true)});
      taken.push_back({nodes.nic(rank, false)});
    }
    nodes.add_core(static_cast<std::uint32_t>(first_of_node.size()), taken);
  }
  result.links = std::move(nodes).links();
  return result;
}

Expected<SharedRun> simulate_shared(const AnalyzedProgram& analyzed, const ContendedCosts& costs,
                                    const SharedLinks& links, const SharedDevices& devices) {
  const Routes routes = routes_of(links);
  Flows flows(routes, links.links);
  if (analyzed.capabilities().residency) {
    PPSIM_ASSIGN_OR_RETURN(
        auto run, run_by_events(analyzed.program(), analyzed.graph(), costs, Shared{&flows, devices}));
    return SharedRun{std::move(run), flows.uses()};
  }
  // Who cannot finish with the waits that may occur does not run with those that always do, either.
  const auto compiled = compile(analyzed);
  if (!compiled) return SharedRun{SimulatedRun(tl::unexpect, compiled.error()), {}};
  if (costs.differ_on(analyzed.capabilities()) || slows_down(devices)) {
    PPSIM_ASSIGN_OR_RETURN(
        auto run, run_by_events(analyzed.program(), analyzed.timed_graph(), costs, Shared{&flows, devices}));
    return SharedRun{std::move(run), flows.uses()};
  }
  PPSIM_ASSIGN_OR_RETURN(const BoundCosts bound, bind_costs(*compiled, costs.costs));
  const std::vector<Instant> ends = run_activities(activities_of(*compiled, bound, routes), {}, flows);
  return SharedRun{trace_of_ends(*compiled, analyzed.timed_graph(), ends), flows.uses()};
}

}  // namespace ppsim::simulator
