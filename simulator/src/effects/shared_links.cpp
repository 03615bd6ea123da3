#include "ppsim/simulator/effects/shared_links.hpp"

#include <map>
#include <numeric>

#include "engine/event_run.hpp"
#include "fair_shares.hpp"
#include "flows.hpp"

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
  void add_core(std::vector<std::uint32_t>& taken) {
    if (network_.core > 0) taken.push_back(link("core", network_.core));
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

std::vector<Rate> fair_rates(std::span<const std::vector<std::uint32_t>> flows, std::span<const Link> links) {
  std::vector<std::uint32_t> all(flows.size());
  std::iota(all.begin(), all.end(), 0U);
  return FairShares(links).of(all, flows);
}

SharedLinks shared_links(const AnalyzedProgram& analyzed, const NodeNetwork& network) {
  const Program& program = analyzed.program();
  const ExecutionGraph& graph = analyzed.guaranteed_graph();
  NodeLinks nodes(network, program.pipeline().ranks());
  SharedLinks result;
  for (const Message& message : graph.messages) {
    std::vector<std::uint32_t>& taken = result.taken.emplace_back();
    const RankId from = program.rank_of(message.send);
    const RankId to = program.rank_of(message.receive);
    if (nodes.node_of(from) == nodes.node_of(to)) continue;
    taken = {nodes.nic(from, true), nodes.nic(to, false)};
    nodes.add_core(taken);
  }
  for (const CollectiveMatch& meeting : graph.meetings) {
    std::map<int, RankId> first_of_node;
    for (const InstructionId member : graph.members_of(meeting)) {
      const RankId rank = program.rank_of(member);
      first_of_node.try_emplace(nodes.node_of(rank), rank);
    }
    std::vector<std::uint32_t>& taken = result.taken.emplace_back();
    if (first_of_node.size() < 2) continue;
    for (const auto& [node, rank] : first_of_node) {
      taken.push_back(nodes.nic(rank, true));
      taken.push_back(nodes.nic(rank, false));
    }
    nodes.add_core(taken);
  }
  result.links = std::move(nodes).links();
  return result;
}

Expected<SharedRun> simulate_shared(const AnalyzedProgram& analyzed, const ContendedCosts& costs,
                                    const SharedLinks& links) {
  Flows flows(links);
  // Who cannot finish with the waits that may occur does not run with those that always do, either.
  if (!analyzed.capabilities().residency) {
    if (const auto compiled = compile(analyzed); !compiled)
      return SharedRun{SimulatedRun(tl::unexpect, compiled.error()), {}};
  }
  const ExecutionGraph& graph =
      analyzed.capabilities().residency ? analyzed.graph() : analyzed.guaranteed_graph();
  PPSIM_ASSIGN_OR_RETURN(auto run, run_by_events(analyzed.program(), graph, costs, &flows));
  return SharedRun{std::move(run), flows.uses()};
}

}  // namespace ppsim::simulator
