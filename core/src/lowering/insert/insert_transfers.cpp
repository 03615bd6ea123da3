#include "insert_transfers.hpp"

#include "transfers.hpp"

namespace ppsim::lowering {
namespace {

/// Rows of the right capacity: at full size every row of lines is many megabytes.
LineRows reserved_rows(const Pipeline& pipeline, const StepRows& rows, bool keep_times) {
  std::vector<std::size_t> counts(static_cast<std::size_t>(pipeline.ranks()), 0);
  for (int r = 0; r < rows.ranks(); ++r) {
    for (const Step& step : rows[RankId(r)]) {
      ++counts[static_cast<std::size_t>(r)];
      for (const Action& action : step.actions()) {
        for_each_transfer(pipeline, action, [&](const Action&, const Action& receive) {
          ++counts[static_cast<std::size_t>(r)];
          ++counts[pipeline.rank_of(receive.stage()).index()];
        });
      }
    }
  }
  LineRows result(counts.size());
  for (std::size_t r = 0; r < counts.size(); ++r) {
    LineRow& row = result[RankId(static_cast<std::int32_t>(r))];
    row.lines.reserve(counts[r]);
    if (keep_times) row.times.reserve(counts[r]);
  }
  return result;
}

}  // namespace

LineRows insert_transfers(const Pipeline& pipeline, const StepRows& rows, const EarliestTimes& times,
                          bool keep_times) {
  LineRows result = reserved_rows(pipeline, rows, keep_times);
  IdVector<RankId, std::vector<std::int32_t>> line_of_step(static_cast<std::size_t>(rows.ranks()));
  const auto at = [&](LineRow& row, Nanoseconds time) {
    if (keep_times) row.times.push_back(time);
  };
  for (const EarliestTimes::Item& item : times.walk) {
    const std::span<const Action> actions =
        rows[item.rank][static_cast<std::size_t>(item.position)].actions();
    LineRow& own = result[item.rank];
    if (actions.size() == 2) {
      own.add_pair(actions[0], actions[1]);
    } else {
      own.add(actions[0]);
    }
    at(own, item.start);
    if (!rows.after(item.rank).empty()) {
      std::vector<std::int32_t>& lines = line_of_step[item.rank];
      lines.resize(rows[item.rank].size(), -1);
      lines[static_cast<std::size_t>(item.position)] = own.lines.back().id;
    }
    for (const Action& action : actions) {
      for_each_transfer(pipeline, action, [&](const Action& send, const Action& receive) {
        LineRow& other = result[pipeline.rank_of(receive.stage())];
        own.add(send);
        at(own, item.end);
        other.add(receive);
        at(other, item.end);
      });
    }
  }
  for (int r = 0; r < rows.ranks(); ++r) {
    const std::vector<std::int32_t>& lines = line_of_step[RankId(r)];
    for (const AfterEdge& edge : rows.after(RankId(r))) {
      result[RankId(r)].after.push_back(
          {lines[static_cast<std::size_t>(edge.later)], lines[static_cast<std::size_t>(edge.earlier)]});
    }
  }
  return result;
}

}  // namespace ppsim::lowering
