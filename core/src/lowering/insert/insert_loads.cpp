#include "insert_loads.hpp"

namespace ppsim::lowering {

void insert_loads(const Pipeline& pipeline, StepRows& rows) {
  for (int r = 0; r < rows.ranks(); ++r) {
    std::vector<Step> steps;
    for (const Step& step : rows[RankId(r)]) {
      for (const Action& a : step.actions()) {
        if (a.kind != OpKind::forward || !pipeline.producers(a.stage(), a.mb()).empty()) continue;
        steps.emplace_back(make_action(OpKind::load, a.subject, a.microbatch, a.slice));
      }
      steps.push_back(step);
    }
    rows.replace(RankId(r), std::move(steps));
  }
}

}  // namespace ppsim::lowering
