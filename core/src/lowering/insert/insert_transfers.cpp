#include "insert_transfers.hpp"

namespace ppsim::lowering {
namespace {

/// Rows of the right capacity: at full size every row of lines is many megabytes.
LineRows reserved_rows(const TransferIndex& transfers, const StepRows& rows, bool keep_times) {
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
  LineRows result(counts.size());
  for (std::size_t r = 0; r < counts.size(); ++r) {
    LineRow& row = result[RankId(static_cast<std::int32_t>(r))];
    row.reserve(counts[r]);
    if (keep_times) row.times.reserve(counts[r]);
  }
  return result;
}

}  // namespace

TransferInserter::TransferInserter(const Pipeline& pipeline, const StepRows& rows, bool keep_times)
    : rows_(rows),
      keep_times_(keep_times),
      transfers_(pipeline),
      lines_(reserved_rows(transfers_, rows, keep_times)),
      line_of_step_(static_cast<std::size_t>(rows.ranks())) {}

void TransferInserter::add(const EarliestTimes::Item& item) {
  const std::span<const Action> actions = rows_[item.rank][static_cast<std::size_t>(item.position)].actions();
  LineRow& own = lines_[item.rank];
  if (actions.size() == 2) {
    own.add_pair(actions[0], actions[1]);
  } else {
    own.add(actions[0]);
  }
  set_time(own, item.start);
  if (!rows_.after(item.rank).empty()) {
    std::vector<std::int32_t>& lines = line_of_step_[item.rank];
    lines.resize(rows_[item.rank].size(), -1);
    lines[static_cast<std::size_t>(item.position)] = static_cast<std::int32_t>(own.size()) - 1;
  }
  for (const Action& action : actions) {
    transfers_.for_each(action, [&](const Action& send, const Action& receive, RankId receiver) {
      LineRow& other = lines_[receiver];
      own.add(send);
      set_time(own, item.end);
      other.add(receive);
      set_time(other, item.end);
    });
  }
}

void TransferInserter::set_time(LineRow& row, Nanoseconds time) const {
  if (keep_times_) row.times.push_back(time);
}

LineRows TransferInserter::finish() && {
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
