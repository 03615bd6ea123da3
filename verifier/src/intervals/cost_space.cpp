#include "ppsim/verifier/intervals/cost_space.hpp"

#include "ppsim/core/ir/check.hpp"

namespace ppsim::verifier {

LinearCost operator+(LinearCost a, const LinearCost& b) {
  a.constant = checked_add(a.constant, b.constant);
  for (const auto& [variable, coefficient] : b.coefficients) {
    std::int64_t& sum = a.coefficients[variable];
    sum = checked_add(sum, coefficient);
  }
  return a;
}

LinearCost operator*(std::int64_t factor, LinearCost cost) {
  PPSIM_CHECK(factor >= 0, "durations are not negative");
  if (factor == 0) return {};
  cost.constant = checked_multiply(factor, cost.constant);
  for (auto& [variable, coefficient] : cost.coefficients) coefficient = checked_multiply(factor, coefficient);
  return cost;
}

LinearCost CostSpace::add(CostVariable variable) {
  PPSIM_CHECK(0 <= variable.least && variable.least <= variable.most, "bounds of a cost in ascending order");
  if (variable.least == variable.most) return {variable.least, {}};
  variables_.push_back(std::move(variable));
  return {0, {{static_cast<int>(variables_.size()) - 1, 1}}};
}

void CostSpace::set(const CostClass& key, LinearCost cost) {
  numbers_.set(key, static_cast<Nanoseconds>(costs_.size()));
  costs_.push_back(std::move(cost));
}

const LinearCost& CostSpace::operator()(const CostClass& key) const { return costs_[as_size(numbers_(key))]; }

CostTable CostSpace::at(const std::vector<Nanoseconds>& values) const {
  CostTable table;
  for (const auto& [key, number] : numbers_.entries()) {
    const LinearCost& cost = costs_[as_size(number)];
    Nanoseconds duration = cost.constant;
    for (const auto& [variable, coefficient] : cost.coefficients) {
      const Nanoseconds value = values[as_size(variable)];
      duration = checked_add(duration, checked_multiply(coefficient, value));
    }
    table.set(key, duration);
  }
  return table;
}

CostBounds CostSpace::bounds() const {
  std::vector<Nanoseconds> least, most;
  for (const CostVariable& variable : variables_) {
    least.push_back(variable.least);
    most.push_back(variable.most);
  }
  return {at(least), at(most)};
}

CostTable CostSpace::middle() const {
  std::vector<Nanoseconds> values;
  for (const CostVariable& variable : variables_)
    values.push_back(variable.least + (variable.most - variable.least) / 2);
  return at(values);
}

}  // namespace ppsim::verifier
