#include "lowering/step_rows.hpp"

#include <algorithm>

#include "ppsim/core/ir/check.hpp"

namespace ppsim::lowering {

StepRows::StepRows(const Schedule& schedule)
    : owned_(static_cast<std::size_t>(schedule.pipeline().ranks())),
      rows_(owned_.size()),
      after_(owned_.size()) {
  for (int r = 0; r < ranks(); ++r) rows_[RankId(r)] = schedule.row(RankId(r));
}

void StepRows::replace(RankId rank, std::vector<Step> steps) {
  PPSIM_CHECK(after_[rank].empty(), "edges name places in the row");
  owned_[rank] = std::move(steps);
  rows_[rank] = owned_[rank];
}

void StepRows::forget_after() {
  for (std::vector<AfterEdge>& edges : after_) edges.clear();
}

void StepRows::add_after(RankId rank, const std::vector<AfterEdge>& edges) {
  std::vector<AfterEdge>& all = after_[rank];
  all.insert(all.end(), edges.begin(), edges.end());
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
}

}  // namespace ppsim::lowering
