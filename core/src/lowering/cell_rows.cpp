#include "lowering/cell_rows.hpp"

#include <algorithm>

#include "ppsim/core/ir/check.hpp"
#include "ppsim/core/ir/sequences.hpp"

namespace ppsim::lowering {
namespace {

RowKinds kinds_in(std::span<const Cell> row) {
  RowKinds kinds;
  for (const Cell& cell : row) {
    for (const Action& action : cell.actions()) kinds.add(action.kind);
  }
  return kinds;
}

}  // namespace

CellRows::CellRows(const Schedule& schedule)
    : owned_(as_size(schedule.pipeline().ranks())),
      rows_(owned_.size()),
      kinds_(owned_.size()),
      after_(owned_.size()) {
  for (const RankId rank : rows_.ids()) rows_[rank] = schedule.row(rank);
  const std::vector<RankRange> parts = ranges();
  all_at_once(parts.size(), [&](std::size_t i) {
    for (RankId rank = parts[i].first; rank < parts[i].last; rank = next(rank))
      kinds_[rank] = kinds_in(rows_[rank]);
  });
}

std::size_t CellRows::cells() const {
  std::size_t count = 0;
  for (const std::span<const Cell> row : rows_) count += row.size();
  return count;
}

void CellRows::replace(RankId rank, std::vector<Cell> cells) {
  PPSIM_CHECK(after_[rank].empty(), "edges name places in the row");
  owned_[rank] = std::move(cells);
  rows_[rank] = owned_[rank];
  kinds_[rank] = kinds_in(rows_[rank]);
}

void CellRows::forget_after() {
  for (std::vector<AfterEdge>& edges : after_) edges.clear();
}

void CellRows::add_after(RankId rank, const std::vector<AfterEdge>& edges) {
  std::vector<AfterEdge>& all = after_[rank];
  append_all(all, edges);
  sort_unique(all);
}

}  // namespace ppsim::lowering
