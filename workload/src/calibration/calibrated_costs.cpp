#include "calibrated_costs.hpp"

#include <utility>

#include "ppsim/core/ir/overflow.hpp"

namespace ppsim::workload {
namespace {

Nanoseconds times_factor(Nanoseconds cost, double factor) {
  return factor == 1 ? cost : checked_round(static_cast<double>(cost) * factor);
}

CostTable scaled(const CostTable& costs, const Calibration& calibration) {
  CostTable result;
  for (const auto& [key, cost] : costs.entries())
    result.set(key, times_factor(cost, calibration.factor(key.kind)));
  return result;
}

}  // namespace

Workload calibrated(Workload workload, Calibration calibration) {
  if (calibration.constants) workload.fitted = *calibration.constants;
  workload.calibration = std::move(calibration);
  return workload;
}

AnalyticCosts calibrated_costs(AnalyticCosts costs, const Calibration& calibration) {
  if (calibration.factors.empty()) return costs;
  costs.tables.costs = scaled(costs.tables.costs, calibration);
  costs.tables.beside_transfers = scaled(costs.tables.beside_transfers, calibration);
  for (StepEnd& end : costs.ends) {
    end.reduction = times_factor(end.reduction, calibration.factor(OpKind::reduce_grad));
    end.update = times_factor(end.update, calibration.factor(OpKind::optimizer));
  }
  return costs;
}

}  // namespace ppsim::workload
