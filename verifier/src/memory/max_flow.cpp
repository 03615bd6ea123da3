#include "max_flow.hpp"

#include <boost/graph/boykov_kolmogorov_max_flow.hpp>
#include <boost/graph/compressed_sparse_row_graph.hpp>
#include <boost/range/iterator_range.hpp>
#include <utility>

namespace ppsim::verifier {
namespace {

using Graph = boost::compressed_sparse_row_graph<boost::directedS>;
using Node = boost::graph_traits<Graph>::vertex_descriptor;
using Edge = boost::graph_traits<Graph>::edge_descriptor;

// Of two edges with capacity, residual, reverse, place and ends.
constexpr std::size_t kBytesPerArc = sizeof(std::size_t) * 2 * 7;

/// The number of a node, which looks at the clock now and then: the algorithm asks for it at every step.
class PolledIndex {
 public:
  using key_type = Node;
  using value_type = Node;
  using reference = Node;
  using category = boost::readable_property_map_tag;

  explicit PolledIndex(const Limits& limits) : limits_(&limits) {}
  friend Node get(const PolledIndex& index, Node node) {
    constexpr unsigned kBetweenLooks = 1U << 16U;
    if (++index.asked_ % kBetweenLooks == 0) index.limits_->poll();
    return node;
  }

 private:
  const Limits* limits_;
  mutable unsigned asked_ = 0;
};

/// Places of the arcs and of their reverses among the edges sorted by source, which is the order of the edges
/// of a compressed row graph.
struct Rows {
  std::vector<std::pair<Node, Node>> edges;
  std::vector<std::size_t> forward;  ///< per arc
  std::vector<std::size_t> backward;
};

Rows rows_of(std::size_t nodes, const std::vector<Arc>& arcs) {
  std::vector<std::size_t> next(nodes + 1, 0);
  for (const Arc& arc : arcs) {
    ++next[arc.from + 1];
    ++next[arc.to + 1];
  }
  for (std::size_t n = 0; n < nodes; ++n) next[n + 1] += next[n];
  Rows rows;
  rows.edges.resize(2 * arcs.size());
  for (const Arc& arc : arcs) {
    rows.forward.push_back(next[arc.from]++);
    rows.backward.push_back(next[arc.to]++);
    rows.edges[rows.forward.back()] = {arc.from, arc.to};
    rows.edges[rows.backward.back()] = {arc.to, arc.from};
  }
  return rows;
}

}  // namespace

MaxFlow max_flow(std::size_t nodes, const std::vector<Arc>& arcs, const Limits& limits) {
  limits.need(arcs.size(), kBytesPerArc);
  const Rows rows = rows_of(nodes, arcs);
  const Graph graph(boost::edges_are_sorted, rows.edges.begin(), rows.edges.end(), nodes);
  std::vector<Edge> edge(rows.edges.size());
  for (const Edge e : boost::make_iterator_range(boost::edges(graph))) {
    edge[boost::get(boost::edge_index, graph, e)] = e;
  }
  std::vector<Bytes> capacity(edge.size(), 0);
  std::vector<Edge> reverse(edge.size());
  for (std::size_t a = 0; a < arcs.size(); ++a) {
    capacity[rows.forward[a]] = arcs[a].capacity;
    reverse[rows.forward[a]] = edge[rows.backward[a]];
    reverse[rows.backward[a]] = edge[rows.forward[a]];
  }
  std::vector<Bytes> residual(edge.size());
  std::vector<Edge> predecessor(nodes);
  std::vector<boost::default_color_type> color(nodes);
  std::vector<long> distance(nodes);
  const auto edge_id = boost::get(boost::edge_index, graph);
  const PolledIndex node_id(limits);
  const auto of_edges = [&](auto& values) {
    return boost::make_iterator_property_map(values.begin(), edge_id);
  };
  const auto of_nodes = [&](auto& values) {
    return boost::make_iterator_property_map(values.begin(), node_id);
  };

  MaxFlow result;
  result.value = boost::boykov_kolmogorov_max_flow(graph, of_edges(capacity), of_edges(residual),
                                                   of_edges(reverse), of_nodes(predecessor), of_nodes(color),
                                                   of_nodes(distance), node_id, Node{0}, Node{1});
  for (std::size_t a = 0; a < arcs.size(); ++a) {
    result.flow.push_back(capacity[rows.forward[a]] - residual[rows.forward[a]]);
  }
  // The algorithm stops when its source tree, which is black, can grow no further.
  for (const auto c : color) result.source_side.push_back(c == boost::black_color);
  return result;
}

}  // namespace ppsim::verifier
