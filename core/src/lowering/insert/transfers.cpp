#include "transfers.hpp"

#include <algorithm>

#include "ppsim/core/ir/sequences.hpp"

namespace ppsim::lowering {
namespace {

/// Adds those from one rank.
void add_flows(const TransferIndex& transfers, RankId from, std::span<const Cell> row,
               std::vector<Flow>& flows) {
  const auto first = static_cast<std::ptrdiff_t>(flows.size());
  const auto count = [&](const Action&, const Action&, RankId to) {
    const auto known = std::ranges::find(flows.begin() + first, flows.end(), to, &Flow::to);
    if (known == flows.end()) {
      flows.push_back({from, to, 1});
    } else {
      ++known->count;
    }
  };
  for (const Cell& cell : row) {
    for (const Action& action : cell.actions()) transfers.for_each(action, count);
  }
}

}  // namespace

std::vector<Flow> flows_of(const TransferIndex& transfers, const CellRows& rows) {
  const std::vector<RankRange> ranges = rows.ranges();
  std::vector<Flow> flows;
  for (const std::vector<Flow>& part : all_at_once(ranges.size(), [&](std::size_t i) {
         std::vector<Flow> of_range;
         for (RankId rank = ranges[i].first; rank < ranges[i].last; rank = next(rank))
           add_flows(transfers, rank, rows[rank], of_range);
         return of_range;
       }))
    append_all(flows, part);
  return flows;
}

IdVector<RankId, std::size_t> line_counts(const CellRows& rows, const std::vector<Flow>& flows) {
  IdVector<RankId, std::size_t> counts;
  for (const RankId rank : rows.rank_ids()) counts.push_back(rows[rank].size());
  for (const Flow& flow : flows) {
    counts[flow.from] += flow.count;
    counts[flow.to] += flow.count;
  }
  return counts;
}

}  // namespace ppsim::lowering
