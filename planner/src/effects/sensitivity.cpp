#include "ppsim/planner/effects/sensitivity.hpp"

#include <algorithm>

#include "ppsim/core/ir/inference.hpp"
#include "ppsim/core/text/as_text.hpp"
#include "ppsim/workload/analytic.hpp"

namespace ppsim::planner {
namespace {

/// The items of a group: how many, and what they take.
struct GroupCosts {
  std::int64_t actions = 0;
  Nanoseconds total = 0;
  Nanoseconds smallest = 0;
  Nanoseconds largest = 0;
};

GroupCosts costs_of_group(const PricedItems& items, const CostGroup& group) {
  GroupCosts costs;
  for (std::size_t i = 0; i < items.costs.size(); ++i) {
    if (!items.is_in(group, i)) continue;
    costs.smallest = costs.actions == 0 ? items.costs[i] : std::min(costs.smallest, items.costs[i]);
    costs.largest = std::max(costs.largest, items.costs[i]);
    costs.total += items.costs[i];
    ++costs.actions;
  }
  return costs;
}

/// The step with all costs of a group times a factor.
Expected<StepLine> scaled_line(const PricedItems& items, const CostGroup& group) {
  std::vector<TimeLine> lines;
  for (std::size_t i = 0; i < items.costs.size(); ++i) {
    const Nanoseconds cost = items.costs[i];
    lines.push_back(items.is_in(group, i) ? TimeLine{0, cost} : TimeLine{cost, 0});
  }
  return StepLine::make(items.program, std::move(lines));
}

/// The step with the factor, less `base` nanoseconds, added to each cost of a group.
Expected<StepLine> added_line(const PricedItems& items, const CostGroup& group, Nanoseconds base) {
  std::vector<TimeLine> lines;
  for (std::size_t i = 0; i < items.costs.size(); ++i) {
    const Nanoseconds cost = items.costs[i];
    lines.push_back(items.is_in(group, i) ? TimeLine{cost - base, 1} : TimeLine{cost, 0});
  }
  return StepLine::make(items.program, std::move(lines));
}

void add_scaled(const StepLine& line, Sensitivity& result) {
  const Ratio more(101, 100);
  const Ratio less(99, 100);
  result.scaled = line.growth(Ratio(1, 1));
  result.one_percent_more = time_at(line.steepest(more), more);
  result.one_percent_less = time_at(line.steepest(less), less);
}

Expected<Sensitivity> sensitivity(const PricedItems& items, const CostGroup& group) {
  const GroupCosts costs = costs_of_group(items, group);
  Sensitivity result{.group = as_text(group), .actions = costs.actions, .total = costs.total};
  PPSIM_ASSIGN_OR_RETURN(const auto scaled, scaled_line(items, group));
  add_scaled(scaled, result);
  PPSIM_ASSIGN_OR_RETURN(const auto added, added_line(items, group, costs.smallest));
  result.added = added.growth(Ratio(costs.smallest, 1));
  result.smallest = costs.smallest;
  return result;
}

/// A workload with one thing of its network twice as slow.
struct SlowedNetwork {
  const char* name;
  Workload workload;
};

std::vector<SlowedNetwork> slowed_networks(const Workload& workload) {
  std::vector<SlowedNetwork> slowed;
  const auto slow = [&](const char* name) -> ClusterDescription& {
    return slowed.emplace_back(SlowedNetwork{name, workload}).workload.cluster;
  };
  const ClusterDescription& cluster = workload.cluster;
  if (cluster.node.node_gbytes) slow("network-byte").node.node_gbytes = *cluster.node.node_gbytes / 2;
  if (cluster.node.latency_us) slow("network-latency").node.latency_us = *cluster.node.latency_us * 2;
  if (cluster.gpu.nvlink_gbytes > 0) slow("nvlink-byte").gpu.nvlink_gbytes = cluster.gpu.nvlink_gbytes / 2;
  return slowed;
}

/// Lines through what each item takes at 1 and at 2. Rounding aside no cost falls, and none is more than
/// twice as long.
Expected<StepLine> line_between(const PricedItems& once, const PricedItems& twice, Sensitivity& result) {
  std::vector<TimeLine> lines;
  for (std::size_t i = 0; i < once.costs.size(); ++i) {
    const Nanoseconds slope = std::clamp<Nanoseconds>(twice.costs[i] - once.costs[i], 0, once.costs[i]);
    if (slope > 0) ++result.actions;
    result.total += slope;
    lines.push_back({once.costs[i] - slope, slope});
  }
  return StepLine::make(once.program, std::move(lines));
}

std::optional<Nanoseconds> common_cost(const GroupCosts& a, const GroupCosts& b) {
  const GroupCosts& one = a.actions > 0 ? a : b;
  const auto is_same = [&](const GroupCosts& costs) {
    return costs.actions == 0 || (costs.smallest == one.smallest && costs.largest == one.smallest);
  };
  return is_same(a) && is_same(b) ? std::optional(one.smallest) : std::nullopt;
}

Expected<std::vector<StepSegment>> segments_of(const PricedItems& items, const CostChange& change) {
  const auto line = change.added ? added_line(items, change.group, 0) : scaled_line(items, change.group);
  return line.map([](const StepLine& step) { return step.segments(); });
}

}  // namespace

Expected<std::vector<Sensitivity>> sensitivities(const SimulatedStep& step, CostGrouping grouping) {
  PPSIM_ASSIGN_OR_RETURN(const auto items, priced_items(step));
  std::vector<Sensitivity> results;
  for (const CostGroup& group : items.groups(grouping)) {
    PPSIM_ASSIGN_OR_RETURN(auto result, sensitivity(items, group));
    results.push_back(std::move(result));
  }
  return results;
}

Expected<std::vector<Sensitivity>> network_sensitivities(const SimulatedStep& step,
                                                         const Workload& workload) {
  PPSIM_ASSIGN_OR_RETURN(const auto once, priced_items(step));
  std::vector<Sensitivity> results;
  for (const SlowedNetwork& slowed : slowed_networks(workload)) {
    PPSIM_ASSIGN_OR_RETURN(const auto costs, bind_cost_source(slowed.workload, step.program().pipeline()));
    PPSIM_ASSIGN_OR_RETURN(const auto twice, priced_items(step, costs));
    Sensitivity result{.group = slowed.name};
    PPSIM_ASSIGN_OR_RETURN(const auto line, line_between(once, twice, result));
    if (result.total == 0) continue;
    add_scaled(line, result);
    results.push_back(std::move(result));
  }
  return results;
}

Expected<BreakEven> break_even(const SimulatedStep& first, const SimulatedStep& second,
                               const CostChange& change) {
  if (trains(first.program()) != trains(second.program()))
    return make_error(ErrorCode::bad_argument, "break-even points need the same work",
                      {.found = (trains(first.program()) ? second : first).name + " without a backward",
                       .expected = "two schedules that train, or two that do not"});
  PPSIM_ASSIGN_OR_RETURN(const auto items, priced_items(first));
  PPSIM_ASSIGN_OR_RETURN(const auto others, priced_items(second));
  const GroupCosts a = costs_of_group(items, change.group);
  const GroupCosts b = costs_of_group(others, change.group);
  if (a.actions == 0 && b.actions == 0) {
    return make_error(ErrorCode::bad_argument, "neither schedule has anything of this cost group",
                      {.found = as_text(change.group), .expected = "a group of one of them"});
  }
  const CostChange done{change.group, change.added || (a.total == 0 && b.total == 0)};
  PPSIM_ASSIGN_OR_RETURN(const auto segments, segments_of(items, done));
  PPSIM_ASSIGN_OR_RETURN(const auto other_segments, segments_of(others, done));
  return BreakEven{as_text(done.group), done.added, shorter_ranges(segments, other_segments),
                   common_cost(a, b)};
}

}  // namespace ppsim::planner
