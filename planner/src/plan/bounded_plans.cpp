#include "plan/bounded_plans.hpp"

#include <algorithm>
#include <atomic>
#include <iterator>
#include <thread>

#include "plan/row.hpp"
#include "ppsim/core/execution/rank_ranges.hpp"

namespace ppsim::planner {
namespace {

using PlacedSchedules = std::span<const PlacedSchedule>;

std::vector<PlacedSchedules> by_placement(PlacedSchedules placed) {
  std::vector<PlacedSchedules> groups;
  for (std::size_t begin = 0; begin < placed.size();) {
    std::size_t end = begin;
    while (end < placed.size() && placed[end].placement == placed[begin].placement) ++end;
    groups.push_back(placed.subspan(begin, end - begin));
    begin = end;
  }
  return groups;
}

BoundedPlan bounded_plan(const ParallelismPlans& plans, const PlacedSchedule& one, LayoutRule layout,
                         const std::shared_ptr<const PlacedCosts>& costs) {
  BoundedPlan plan{plans.choice, costs->of_form(one.form, plans.choice.parallelism.microbatches()), one.form,
                   costs};
  plan.choice.schedule = std::string(one.choice.info->name);
  plan.choice.chunks = one.choice.chunks;
  plan.choice.layout = layout;
  return plan;
}

/// Costs are those of a placement, so that its schedules share them.
std::vector<BoundedPlan> of_placement(const ParallelismPlans& plans, PlacedSchedules schedules) {
  const auto belongs = [&](const PlacedSchedule& one) {
    return !plans.overlaps || one.form.overlaps == *plans.overlaps;
  };
  std::vector<BoundedPlan> result;
  if (std::ranges::none_of(schedules, belongs)) return result;
  std::optional<PipelineLayout> first;
  for (const LayoutRule layout : plans.space.layouts()) {
    Workload work = workload_of(plans.request, plans.choice);
    work.layout = layout;
    auto costs = analytic_costs(work, schedules.front().placement->pipeline);
    if (!costs) continue;  // a layer for each stage, where there are more stages
    if (first && costs->layout == *first) continue;
    first = costs->layout;
    const auto placed = std::make_shared<PlacedCosts>(work, schedules.front().placement, *std::move(costs));
    for (const PlacedSchedule& one : schedules) {
      if (belongs(one)) result.push_back(bounded_plan(plans, one, layout, placed));
    }
    placed->forget_tables();
  }
  return result;
}

}  // namespace

std::vector<BoundedPlan> bounded_plans(const ParallelismPlans& plans) {
  const std::vector<PlacedSchedules> groups = by_placement(plans.placed);
  std::vector<std::vector<BoundedPlan>> of_groups(groups.size());
  std::atomic<std::size_t> next = 0;
  const std::size_t processors = std::max(1U, std::thread::hardware_concurrency());
  all_at_once(std::clamp<std::size_t>(groups.size(), 1, processors), [&](std::size_t) {
    for (std::size_t g = next++; g < groups.size(); g = next++) of_groups[g] = of_placement(plans, groups[g]);
  });
  std::vector<BoundedPlan> all;
  for (std::vector<BoundedPlan>& group : of_groups) std::ranges::move(group, std::back_inserter(all));
  return all;
}

}  // namespace ppsim::planner
