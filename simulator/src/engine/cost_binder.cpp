#include "ppsim/simulator/engine/cost_binder.hpp"

#include <algorithm>

#include "engine/duration_sum.hpp"

namespace ppsim::simulator {

bool CostBinder::has_known_keys(const CostTable& costs) const {
  return !entry_of_.empty() &&
         std::ranges::equal(costs.entries(), keys_, {}, [](const auto& entry) { return entry.first; });
}

void CostBinder::look_up(const CostTable& costs) {
  keys_.clear();
  CostTable numbers;  // of entries, in the place of durations
  for (const auto& [key, duration] : costs.entries()) {
    keys_.push_back(key);
    numbers.set(key, static_cast<Nanoseconds>(keys_.size()));
  }
  entry_of_.clear();
  for (const CostClass& cost_class : program_.cost_classes)
    entry_of_.push_back(static_cast<std::size_t>(numbers(cost_class)));
}

Expected<BoundCosts> CostBinder::operator()(const CostTable& costs) {
  if (!has_known_keys(costs)) look_up(costs);
  std::vector<Nanoseconds> values = {0};
  values.reserve(keys_.size() + 1);
  for (const auto& [key, duration] : costs.entries()) values.push_back(duration);
  BoundCosts bound{std::vector<Nanoseconds>(CompiledProgram::kFirstBound, 0)};
  bound.durations.reserve(program_.item_counts.size());
  for (const std::size_t entry : entry_of_) bound.durations.push_back(values[entry]);
  PPSIM_RETURN_IF_ERROR(check_sum(program_, bound));
  return bound;
}

}  // namespace ppsim::simulator
