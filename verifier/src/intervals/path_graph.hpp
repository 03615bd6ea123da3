#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "ppsim/core/execution/execution_graph.hpp"
#include "ppsim/core/ir/program.hpp"
#include "ppsim/core/ir/tables.hpp"

namespace ppsim::verifier {

/// When something ends: at the latest of earlier points, plus the cost of `cost_class` where there is one.
struct PathPoint {
  static constexpr std::int32_t kNoCost = -1;

  std::uint32_t first_before = 0;  ///< into PathGraph::before
  std::uint32_t before_count = 0;
  std::int32_t cost_class = kNoCost;  ///< into PathGraph::classes
  InstructionId instruction;          ///< that takes the time; of a message its SEND
};

/// A run of a Program as longest paths, before costs are known: under E1 to E7 every time is the latest of
/// earlier times plus a cost, so the makespan is the largest sum of costs along a path.
struct PathGraph {
  std::vector<PathPoint> points;  ///< each after those before it; point 0 is the step's start
  std::vector<std::uint32_t> before;
  std::vector<CostClass> classes;
  std::uint32_t end = 0;  ///< when everything is complete

  [[nodiscard]] std::span<const std::uint32_t> before_of(const PathPoint& point) const {
    return {before.data() + point.first_before, point.before_count};
  }
};

/// Requires: the graph is the Program's, `order` its run_order and complete, everything matched, and no
/// residency limit is ever reached.
[[nodiscard]] PathGraph path_graph(const Program& program, const ExecutionGraph& graph,
                                   const RunOrder& order);

/// The time of every point. `durations` has one number for each of graph.classes.
template <class Number>
std::vector<Number> end_times(const PathGraph& graph, const std::vector<Number>& durations) {
  std::vector<Number> ends;
  ends.reserve(graph.points.size());
  for (const PathPoint& point : graph.points) {
    Number end = 0;
    for (const std::uint32_t before : graph.before_of(point)) end = std::max(end, ends[before]);
    if (point.cost_class != PathPoint::kNoCost) end += durations[as_size(point.cost_class)];
    ends.push_back(std::move(end));
  }
  return ends;
}

/// The points with a cost along a longest path to the end, in time order. Order: of several, the path through
/// the points of the smallest numbers, looked at from the end.
template <class Number>
std::vector<std::uint32_t> longest_path(const PathGraph& graph, const std::vector<Number>& ends) {
  std::vector<std::uint32_t> path;
  for (std::uint32_t at = graph.end; at != 0;) {
    const PathPoint& point = graph.points[at];
    if (point.cost_class != PathPoint::kNoCost) path.push_back(at);
    const auto before = graph.before_of(point);
    at = *std::ranges::max_element(before, {}, [&](std::uint32_t b) -> const Number& { return ends[b]; });
  }
  std::ranges::reverse(path);
  return path;
}

}  // namespace ppsim::verifier
