#include "insert_recompute.hpp"

#include <algorithm>

#include "lowering/cells.hpp"

namespace ppsim::lowering {

void insert_recompute(const Pipeline& pipeline, const StageRecompute& recompute, StepRows& rows) {
  std::vector<char> recomputed(cell_count(pipeline), 0);
  for (int r = 0; r < rows.ranks(); ++r) {
    std::vector<Step> steps;
    for (const Step& step : rows[RankId(r)]) {
      for (const Action& a : step.actions()) {
        if (a.kind == OpKind::recompute) recomputed[cell_of(pipeline, a)] = 1;
        if (!gives_input_gradient(a.kind) || recomputed[cell_of(pipeline, a)] != 0) continue;
        if (recompute(a.stage()) != Recompute::full) continue;
        steps.emplace_back(make_action(OpKind::recompute, a.subject, a.microbatch, a.slice));
      }
      steps.push_back(step);
    }
    rows.replace(RankId(r), std::move(steps));
  }
}

}  // namespace ppsim::lowering
