#include "insert_transfers.hpp"

namespace ppsim::lowering {
namespace {

/// How many lines each row will have, or a few more.
std::vector<std::size_t> line_counts(const TransferIndex& transfers, const StepRows& rows) {
  std::vector<std::size_t> counts(static_cast<std::size_t>(rows.ranks()), 0);
  for (std::size_t r = 0; r < counts.size(); ++r) {
    const std::span<const Step> row = rows[RankId(static_cast<std::int32_t>(r))];
    counts[r] += row.size();
    for (const Step& step : row) {
      for (const Action& action : step.actions()) {
        transfers.for_each(action, [&](const Action&, const Action&, RankId receiver) {
          ++counts[r];
          ++counts[receiver.index()];
        });
      }
    }
  }
  return counts;
}

}  // namespace

TransferInserter::TransferInserter(const Pipeline& pipeline, const StepRows& rows, bool keep_times)
    : rows_(rows),
      transfers_(pipeline),
      lines_(static_cast<std::size_t>(rows.ranks())),
      line_of_step_(static_cast<std::size_t>(rows.ranks())) {
  const std::vector<std::size_t> counts = line_counts(transfers_, rows);
  for (const RankId rank : lines_.ids()) writers_.push_back({lines_[rank], counts[rank.index()], keep_times});
}

void TransferInserter::add(const EarliestTimes::Item& item) {
  const std::span<const Action> actions = rows_[item.rank][static_cast<std::size_t>(item.position)].actions();
  LineWriter& own = writers_[item.rank];
  if (actions.size() == 2) {
    own.add_pair(actions[0], actions[1], item.start);
  } else {
    own.add(actions[0], item.start);
  }
  if (!rows_.after(item.rank).empty()) {
    std::vector<std::int32_t>& lines = line_of_step_[item.rank];
    lines.resize(rows_[item.rank].size(), -1);
    lines[static_cast<std::size_t>(item.position)] = static_cast<std::int32_t>(own.size()) - 1;
  }
  for (const Action& action : actions) {
    transfers_.for_each(action, [&](const Action& send, const Action& receive, RankId receiver) {
      own.add(send, item.end);
      writers_[receiver].add(receive, item.end);
    });
  }
}

LineRows TransferInserter::finish() && {
  for (LineWriter& writer : writers_) writer.finish();
  for (int r = 0; r < rows_.ranks(); ++r) {
    const std::vector<std::int32_t>& lines = line_of_step_[RankId(r)];
    for (const AfterEdge& edge : rows_.after(RankId(r))) {
      lines_[RankId(r)].after.push_back(
          {lines[static_cast<std::size_t>(edge.later)], lines[static_cast<std::size_t>(edge.earlier)]});
    }
  }
  return std::move(lines_);
}

}  // namespace ppsim::lowering
