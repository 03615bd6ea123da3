#include "fit_constants.hpp"

#include <cmath>

#include "validation/fitted_axes.hpp"

namespace ppsim::planner {
namespace {

constexpr int kMaxRounds = 20;  // each makes the sum less, so few are needed

class ClassFit {
 public:
  ClassFit(const Workload& workload, const AnalyzedProgram& analyzed, const Durations& durations)
      : workload_(workload), pipeline_(analyzed.program().pipeline()), means_(mean_costs(durations, 0)) {
    for (const auto& [key, values] : durations)
      weights_[key] = static_cast<double>(means_(key)) * static_cast<double>(values.size());
  }

  Expected<double> loss(const FittedConstants& constants) {
    workload_.fitted = constants;
    PPSIM_ASSIGN_OR_RETURN(const auto costs, analytic_costs(workload_, pipeline_));
    double loss = 0;
    for (const auto& [key, weight] : weights_) {
      const auto modelled = static_cast<double>(costs.tables.costs(key));
      const auto measured = static_cast<double>(means_(key));
      if (modelled > 0 && measured > 0) loss += weight * std::abs(std::log(modelled / measured));
    }
    return loss;
  }

 private:
  Workload workload_;
  const Pipeline& pipeline_;
  CostTable means_;
  std::map<CostClass, double> weights_;
};

}  // namespace

Expected<FittedConstants> fitted_constants(const Workload& workload, const AnalyzedProgram& analyzed,
                                           const Durations& durations) {
  ClassFit fit(workload, analyzed, durations);
  FittedConstants best = workload.fitted;
  PPSIM_ASSIGN_OR_RETURN(double least, fit.loss(best));
  bool better = true;
  for (int round = 0; round < kMaxRounds && better; ++round) {
    better = false;
    for (const FittedAxis& axis : kFittedAxes) {
      const FittedConstants from = best;
      for (int at = 0; at < axis.count; ++at) {
        FittedConstants tried = from;
        tried.*axis.constant = axis.value(at);
        PPSIM_ASSIGN_OR_RETURN(const double loss, fit.loss(tried));
        if (loss >= least) continue;
        least = loss;
        best = tried;
        better = true;
      }
    }
  }
  return best;
}

}  // namespace ppsim::planner
