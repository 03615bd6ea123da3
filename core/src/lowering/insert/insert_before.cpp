#include "insert_before.hpp"

#include "lowering/cells.hpp"

namespace ppsim::lowering {
namespace {

/// An action of this kind before the step of every action for which `is_wanted`.
template <class IsWanted>
void insert_before(OpKind kind, StepRows& rows, const IsWanted& is_wanted) {
  for (int r = 0; r < rows.ranks(); ++r) {
    std::vector<Step> steps;
    for (const Step& step : rows[RankId(r)]) {
      for (const Action& a : step.actions()) {
        if (is_wanted(a)) steps.emplace_back(make_action(kind, a.subject, a.microbatch, a.slice));
      }
      steps.push_back(step);
    }
    rows.replace(RankId(r), std::move(steps));
  }
}

}  // namespace

void insert_loads(const Pipeline& pipeline, StepRows& rows) {
  insert_before(OpKind::load, rows, [&](const Action& a) {
    return a.kind == OpKind::forward && pipeline.producers(a.stage(), a.mb()).empty();
  });
}

void insert_recompute(const Pipeline& pipeline, const StageRecompute& recompute, StepRows& rows) {
  std::vector<char> recomputed(cell_count(pipeline), 0);
  insert_before(OpKind::recompute, rows, [&](const Action& a) {
    if (a.kind == OpKind::recompute) recomputed[cell_of(pipeline, a)] = 1;
    return gives_input_gradient(a.kind) && recomputed[cell_of(pipeline, a)] == 0 &&
           recompute(a.stage()) == Recompute::full;
  });
}

}  // namespace ppsim::lowering
