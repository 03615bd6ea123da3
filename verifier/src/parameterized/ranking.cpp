#include "ppsim/verifier/parameterized/ranking.hpp"

#include <algorithm>
#include <deque>

namespace ppsim::verifier {
namespace {

struct RankingEdge {
  int before = 0;
  int after = 0;
  std::int64_t length = 0;
};

/// Least numbers >= 0 with number[after] >= number[before] + length along every edge. Returns: nothing where
/// a cycle has a positive length.
std::optional<std::vector<std::int64_t>> longest_paths(std::size_t nodes,
                                                       const std::vector<RankingEdge>& edges) {
  std::vector<std::size_t> begin(nodes + 1, 0);
  for (const RankingEdge& e : edges) ++begin[as_size(e.before) + 1];
  for (std::size_t n = 0; n < nodes; ++n) begin[n + 1] += begin[n];
  std::vector<RankingEdge> out(edges.size());
  std::vector<std::size_t> at(begin.begin(), begin.end() - 1);
  for (const RankingEdge& e : edges) out[at[as_size(e.before)]++] = e;

  std::vector<std::int64_t> number(nodes, 0);
  std::vector<std::size_t> steps(nodes, 0);  // edges of the longest path that is known
  std::vector<char> waiting(nodes, 1);
  std::deque<std::size_t> queue;
  for (std::size_t n = 0; n < nodes; ++n) queue.push_back(n);
  while (!queue.empty()) {
    const std::size_t n = queue.front();
    queue.pop_front();
    waiting[n] = 0;
    for (std::size_t e = begin[n]; e < begin[n + 1]; ++e) {
      const auto to = as_size(out[e].after);
      if (number[to] >= number[n] + out[e].length) continue;
      number[to] = number[n] + out[e].length;
      steps[to] = steps[n] + 1;
      if (steps[to] > nodes) return std::nullopt;
      if (waiting[to] == 0) queue.push_back(to);
      waiting[to] = 1;
    }
  }
  return number;
}

std::vector<RankingEdge> edges_of(const PeriodicProgram& family) {
  std::vector<RankingEdge> edges;
  edges.reserve(family.waits.size());
  for (const SeriesWait& wait : family.waits) {
    edges.push_back({family.series[as_size(wait.before)].event, family.series[as_size(wait.after)].event, 0});
  }
  return edges;
}

/// How far the rank of `before` must stay behind that of `after`, both as instance 0. Their distance in k
/// only grows with k, so the first k asks for most.
std::int64_t distance(const PeriodicProgram& family, const Ranking& ranking, const SeriesWait& wait,
                      const RankingEdge& edge) {
  const std::int64_t growth =
      wait.shift.per_period + ranking.phase[as_size(edge.before)] - ranking.phase[as_size(edge.after)];
  return 1 + ranking.scale * (wait.shift.constant - 1 + growth * family.first);
}

}  // namespace

std::optional<Ranking> find_ranking(const PeriodicProgram& family) {
  std::vector<RankingEdge> edges = edges_of(family);
  for (std::size_t w = 0; w < edges.size(); ++w) edges[w].length = family.waits[w].shift.per_period;
  auto phase = longest_paths(family.events.size(), edges);
  if (!phase) return std::nullopt;
  Ranking ranking{static_cast<std::int64_t>(family.events.size()) + 1, {}, *std::move(phase)};
  for (std::size_t w = 0; w < edges.size(); ++w)
    edges[w].length = distance(family, ranking, family.waits[w], edges[w]);
  auto offset = longest_paths(family.events.size(), edges);
  if (!offset) return std::nullopt;
  ranking.offset = *std::move(offset);
  return ranking;
}

bool ranks_all_waits(const PeriodicProgram& family, const Ranking& ranking) {
  const std::vector<RankingEdge> edges = edges_of(family);
  for (std::size_t w = 0; w < edges.size(); ++w) {
    const auto before = as_size(edges[w].before);
    const auto after = as_size(edges[w].after);
    const std::int64_t growth =
        family.waits[w].shift.per_period + ranking.phase[before] - ranking.phase[after];
    if (growth > 0) return false;
    if (ranking.offset[after] - ranking.offset[before] < distance(family, ranking, family.waits[w], edges[w]))
      return false;
  }
  return ranking.scale > 0;
}

}  // namespace ppsim::verifier
