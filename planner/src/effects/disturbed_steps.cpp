#include "ppsim/planner/effects/disturbed_steps.hpp"

#include <utility>

#include "disturbed_items.hpp"

namespace ppsim::planner {

struct DisturbedSteps::Parts {
  AnalyzedProgram analyzed;
  CostTable costs;
  std::uint64_t seed;
  DisturbedItems items;
  CompiledProgram apart;  ///< every item has a duration of its own

  [[nodiscard]] Sampler drawn(std::uint64_t sample) const {
    Sampler sampler(items, seed);
    sampler.draw(sample);
    return sampler;
  }
};

namespace {

CompiledProgram with_durations_apart(CompiledProgram compiled) {
  for (std::uint32_t i = 0; i < compiled.items.size(); ++i) {
    std::uint32_t& duration = compiled.items[i].duration;
    if (duration >= CompiledProgram::kFirstBound) duration = CompiledProgram::kFirstBound + i;
  }
  compiled.item_counts.assign(CompiledProgram::kFirstBound + compiled.items.size(), 1);
  return compiled;
}

}  // namespace

Expected<DisturbedSteps> DisturbedSteps::make(const SimulatedStep& step, const Disturbances& disturbances,
                                              std::uint64_t seed) {
  CostBinding costs = step.costs;
  costs.ends = {};
  PPSIM_ASSIGN_OR_RETURN(auto priced, priced_items(step, costs));
  PPSIM_ASSIGN_OR_RETURN(auto items, disturbed_items(std::move(priced), step.analyzed, disturbances));
  CompiledProgram apart = with_durations_apart(items.priced.program);
  return DisturbedSteps(std::make_shared<const Parts>(
      Parts{step.analyzed, std::move(costs.tables.costs), seed, std::move(items), std::move(apart)}));
}

const CostTable& DisturbedSteps::costs() const { return parts_->costs; }

std::vector<Nanoseconds> DisturbedSteps::steps(int count) const {
  Sampler sampler(parts_->items, parts_->seed);
  std::vector<Nanoseconds> steps;
  for (int sample = 0; sample < count; ++sample) {
    sampler.draw(static_cast<std::uint64_t>(sample));
    steps.push_back(sampler.step(nullptr));
  }
  return steps;
}

std::vector<Nanoseconds> DisturbedSteps::action_times(std::uint64_t sample) const {
  const Sampler sampler = parts_->drawn(sample);
  std::vector<Nanoseconds> times;
  times.reserve(parts_->items.item_of.size());
  for (const std::uint32_t item : parts_->items.item_of) times.push_back(sampler.cost(item));
  return times;
}

TimedTrace DisturbedSteps::trace(std::uint64_t sample) const {
  const Sampler sampler = parts_->drawn(sample);
  BoundCosts costs{std::vector<Nanoseconds>(CompiledProgram::kFirstBound, 0)};
  for (std::size_t i = 0; i < parts_->apart.items.size(); ++i) costs.durations.push_back(sampler.cost(i));
  return simulate_trace(parts_->apart, parts_->analyzed.timed_graph(), costs);
}

}  // namespace ppsim::planner
