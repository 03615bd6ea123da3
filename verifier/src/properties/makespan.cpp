#include "../intervals/path_graph.hpp"
#include "properties.hpp"

namespace ppsim::verifier {
namespace {

/// Times of a path graph under one cost table; nothing when its costs add up to more than 64 bits hold.
std::optional<std::vector<Nanoseconds>> times_of(const PathGraph& paths, const CostTable& costs) {
  std::vector<Nanoseconds> durations;
  for (const CostClass& cost_class : paths.classes) durations.push_back(costs(cost_class));
  Nanoseconds all = 0;
  for (const PathPoint& point : paths.points) {
    if (point.cost_class == PathPoint::kNoCost) continue;
    if (__builtin_add_overflow(all, durations[as_size(point.cost_class)], &all)) return std::nullopt;
  }
  return end_times(paths, durations);
}

LateEnd late_end(const VerifyOptions& options, const PathGraph& paths, const std::vector<Nanoseconds>& ends) {
  const CostTable& costs = options.costs->most;
  LateEnd late{costs, ends[paths.end], *options.makespan_limit, {}};
  for (const std::uint32_t at : longest_path(paths, ends)) {
    const PathPoint& point = paths.points[at];
    const Nanoseconds duration = costs(paths.classes[as_size(point.cost_class)]);
    if (duration > 0) late.critical_path.push_back({point.instruction, ends[at] - duration, ends[at]});
  }
  return late;
}

}  // namespace

// Times are maxima of sums of costs, so none falls when a cost rises: whatever each action takes within its
// bounds, the step is longest where all take most.
Answer check_makespan(const AnalyzedProgram& analyzed, const VerifyOptions& options,
                      std::optional<MakespanRange>& range) {
  constexpr auto kMethod = "longest path";
  const Program& program = analyzed.program();
  if (!options.costs) return {Unknown{"no costs are given"}, kMethod};
  if (!analyzed.finishes()) return {Unknown{why_stuck(analyzed)}, kMethod};
  const auto& residency = analyzed.capabilities().residency;
  if (residency && *residency < max_in_flight(program))
    return {Unknown{"under a residency limit times depend on which operation takes a place"}, kMethod};
  const PathGraph paths = path_graph(program, analyzed.graph(), analyzed.order());
  const auto latest = times_of(paths, options.costs->most);
  if (!latest) return {Unknown{"the costs add up to more than 64 bits of nanoseconds"}, kMethod};
  const PathGraph fewer = path_graph(program, analyzed.timed_graph(), analyzed.order());
  range = MakespanRange{(*times_of(fewer, options.costs->least))[fewer.end], (*latest)[paths.end]};
  const auto& limit = options.makespan_limit;
  if (!limit || range->most <= *limit) return {Proved{}, kMethod};
  return {Refuted{late_end(options, paths, *latest)}, kMethod};
}

}  // namespace ppsim::verifier
