#include "insert_offload.hpp"

#include "copy_plan.hpp"

namespace ppsim::lowering {
namespace {

IdVector<RankId, RowTimes> times_of_rows(const EarliestTimes& times, const CellRows& rows) {
  IdVector<RankId, RowTimes> result(as_size(rows.ranks()));
  for (const RankId rank : rows.rank_ids()) {
    const std::size_t size = rows[rank].size();
    result[rank] = {std::vector<Nanoseconds>(size, 0), std::vector<Nanoseconds>(size, 0)};
  }
  for (const EarliestTimes::Item& item : times.walk) {
    result[item.rank].start[as_size(item.position)] = item.start;
    result[item.rank].end[as_size(item.position)] = item.end;
  }
  return result;
}

/// The copies of as much of the choice as delays nothing, found by bisection.
std::vector<Copy> copies_that_fit(Offload offload, const CostTable& costs, std::span<const Cell> row,
                                  const RowTimes& times) {
  std::vector<Copy> best;
  int fits = 0;
  int above = offload.percent + 1;
  // All of it first: that is what usually fits.
  for (int percent = offload.percent; above - fits > 1; percent = (fits + above) / 2) {
    offload.percent = percent;
    auto copies = plan_copies(offloaded_waits(offload, row), costs, row, times);
    (copies ? fits : above) = percent;
    if (copies) best = *std::move(copies);
  }
  return best;
}

void insert_copies(RankId rank, const std::vector<Copy>& copies, CellRows& rows) {
  const std::span<const Cell> row = rows[rank];
  std::vector<Cell> cells;
  std::vector<std::int32_t> place_of_cell;
  std::vector<std::int32_t> place_of_copy;
  auto next = copies.begin();
  for (std::size_t i = 0; i <= row.size(); ++i) {
    for (; next != copies.end() && next->place == i; ++next) {
      place_of_copy.push_back(static_cast<std::int32_t>(cells.size()));
      cells.emplace_back(next->action);
    }
    if (i == row.size()) break;
    place_of_cell.push_back(static_cast<std::int32_t>(cells.size()));
    cells.push_back(row[i]);
  }
  std::vector<AfterEdge> edges;
  for (std::size_t c = 0; c < copies.size(); ++c) {
    const Copy& copy = copies[c];
    if (copy.gate != Copy::kNone) edges.push_back({place_of_copy[c], place_of_cell[copy.gate]});
    if (copy.holds != Copy::kNone) edges.push_back({place_of_cell[copy.holds], place_of_copy[c]});
  }
  rows.replace(rank, std::move(cells));
  rows.add_after(rank, edges);
}

}  // namespace

void insert_offload(const LoweringOptions& options, const EarliestTimes* times, const CostTable* costs,
                    CellRows& rows) {
  IdVector<RankId, RowTimes> known;
  if (times != nullptr) known = times_of_rows(*times, rows);
  for (const RankId rank : rows.rank_ids()) {
    insert_copies(rank,
                  times == nullptr
                      ? plan_copies(offloaded_waits(options.offload, rows[rank]), options, rows[rank])
                      : copies_that_fit(options.offload, *costs, rows[rank], known[rank]),
                  rows);
  }
}

}  // namespace ppsim::lowering
