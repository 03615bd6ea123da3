#include "lowering/step_rows.hpp"

namespace ppsim::lowering {

StepRows::StepRows(const Schedule& schedule)
    : owned_(static_cast<std::size_t>(schedule.pipeline().ranks())), rows_(owned_.size()) {
  for (int r = 0; r < ranks(); ++r) rows_[RankId(r)] = schedule.row(RankId(r));
}

void StepRows::replace(RankId rank, std::vector<Step> steps) {
  owned_[rank] = std::move(steps);
  rows_[rank] = owned_[rank];
}

}  // namespace ppsim::lowering
