#include "ppsim/planner/prediction.hpp"

#include <algorithm>
#include <cmath>
#include <sstream>

#include "ppsim/planner/run_comparison.hpp"

namespace ppsim {
namespace {

/// What an instruction costs is looked up by, a transfer by its SEND.
std::vector<CostClass> cost_classes(const Program& program, InstructionId id) {
  const auto actions = program.actions(id);
  const InstructionForm form = program.instruction(id).form;
  if (form == InstructionForm::overlap) return {cost_class_of(actions, form)};
  std::vector<CostClass> classes;
  for (const Action& action : actions) {
    if (!is_receive(action.kind)) classes.push_back(cost_class_of(action));
  }
  return classes;
}

/// What nothing was measured of would be free.
Expected<void> check_measured(const Program& program, const CostTable& costs) {
  for (std::int32_t i = 0; i < static_cast<std::int32_t>(program.size()); ++i) {
    for (const CostClass& key : cost_classes(program, InstructionId(i))) {
      if (costs.entries().contains(key)) continue;
      std::ostringstream found;
      found << key;
      return make_error(ErrorCode::bad_argument, "the costs of an action were not measured",
                        {.found = found.str(), .expected = "a profile that has the same stages and kinds"});
    }
  }
  return {};
}

/// The value at a share of the sorted ones, the smallest that so many do not exceed.
double at_share(const std::vector<double>& sorted, double share) {
  const auto rank = static_cast<std::size_t>(std::ceil(share * static_cast<double>(sorted.size())));
  return sorted[std::max<std::size_t>(rank, 1) - 1];
}

}  // namespace

double Prediction::step_error() const {
  if (measured_step_ns == 0) return 0;
  return static_cast<double>(simulated_step_ns - measured_step_ns) / static_cast<double>(measured_step_ns);
}

Expected<Prediction> predict(const Program& program, const StageModel& model, const RunOptions& run,
                             const CostTable& costs) {
  if (auto good = check_measured(program, costs); !good) return tl::unexpected(good.error());
  const auto ran = verify_then_run(program, model, {.run = run, .costs = &costs});
  if (!ran) return tl::unexpected(ran.error());
  if (ran->run.outcome == RunOutcome::deadlock) return make_error(ErrorCode::deadlock, "the run hung");
  const RunComparison comparison = compare_run(program, run.capabilities, *ran);
  return Prediction{.step_ns = ran->run.step_ns,
                    .measured_step_ns = ran->measured_step_ns,
                    .simulated_step_ns = ran->simulated_step_ns,
                    .measured_bubble = comparison.measured.bubble(),
                    .simulated_bubble = comparison.simulated.bubble(),
                    .host = ran->run.host};
}

ErrorSummary summarize(std::vector<double> errors) {
  if (errors.empty()) return {};
  for (double& error : errors) error = std::abs(error);
  std::sort(errors.begin(), errors.end());
  return {at_share(errors, 0.5), at_share(errors, 0.95), errors.back()};
}

}  // namespace ppsim
