#include "issue_orders.hpp"

#include <algorithm>
#include <map>
#include <numeric>

#include "arrivals.hpp"
#include "ppsim/core/ir/check.hpp"

namespace ppsim::lowering {
namespace {

/// An arrival and the number of compute lines that stand before it.
struct Arrival {
  std::int32_t slot;
  std::size_t line;
};

class RowPlacer {
 public:
  RowPlacer(const Pipeline& pipeline, const LoweringOptions& options, RankId rank, LineRow& row)
      : pipeline_(pipeline), options_(options), row_(row), users_(first_users(pipeline, rank, row)) {
    std::int32_t count = 0;
    for (std::size_t i = 0; i < row.size(); ++i) {
      compute_before_.push_back(count);
      if (computes(row.line(i))) ++count;
    }
  }

  void run() {
    find_slots();
    keep_channel_order();
    std::ranges::stable_sort(arrivals_, {}, &Arrival::slot);
    rebuild();
  }

 private:
  /// An arrival without a reader (an UNSHARD or RELOAD that a file ends with) stays where it is.
  [[nodiscard]] bool moves(std::size_t i) const { return is_arrival(row_.line(i)) && users_[i] >= 0; }

  void find_slots() {
    std::map<Action, std::int32_t> floors;
    for (std::size_t i = 0; i < row_.size(); ++i) {
      const Line line = row_.line(i);
      note_floor(i, floors);
      if (!moves(i)) continue;
      const std::int32_t wanted = compute_before_[as_size(users_[i])] - options_.early;
      const auto floor = floors.find(line.action);
      arrivals_.push_back({std::max(wanted, floor == floors.end() ? 0 : floor->second), i});
    }
  }

  /// OFFLOAD and RESHARD bound how early the action that undoes them may stand.
  void note_floor(std::size_t i, std::map<Action, std::int32_t>& floors) const {
    Action action = row_.action(i);
    if (action.kind == OpKind::offload) {
      action.kind = OpKind::reload;
      floors[action] = compute_before_[i];
    } else if (action.kind == OpKind::reshard) {
      action.kind = OpKind::unshard;
      floors[action] = compute_before_[i] + 1;
    }
  }

  void keep_channel_order() {
    std::map<Stream, std::int32_t> earliest_behind;
    for (auto arrival = arrivals_.rbegin(); arrival != arrivals_.rend(); ++arrival) {
      const Line line = row_.line(arrival->line);
      if (!is_transfer(line.action.kind)) continue;
      const Stream stream = stream_of(pipeline_, options_.communicators, line);
      std::int32_t& earliest = earliest_behind.try_emplace(stream, arrival->slot).first->second;
      earliest = arrival->slot = std::min(earliest, arrival->slot);
    }
  }

  void rebuild() {
    std::vector<Line> lines;
    lines.reserve(row_.size());
    std::size_t next = 0;
    std::int32_t last_compute = -1;
    const auto place_until = [&](std::int32_t slot) {
      for (; next < arrivals_.size() && arrivals_[next].slot <= slot; ++next) {
        lines.push_back(row_.line(arrivals_[next].line));
        if (last_compute >= 0) row_.after.push_back({lines.back().id, last_compute});
      }
    };
    for (std::size_t i = 0; i < row_.size(); ++i) {
      const Line line = row_.line(i);
      if (moves(i)) continue;
      if (computes(line)) place_until(compute_before_[i]);
      lines.push_back(line);
      if (computes(line)) last_compute = line.id;
    }
    PPSIM_CHECK(lines.size() == row_.size(), "an arrival behind the last compute line");
    row_.replace(lines);
  }

  const Pipeline& pipeline_;
  const LoweringOptions& options_;
  LineRow& row_;
  std::vector<std::int32_t> users_;
  std::vector<std::int32_t> compute_before_;
  std::vector<Arrival> arrivals_;
};

/// Sorts a row by time, stably, by moving each line to its place among those before it. The walk has them
/// nearly in order. False where it would take long: lines sorted so far stay, and equals keep their order.
bool sort_by_moving(LineRow& row) {
  constexpr std::size_t kMovesOfLine = 16;
  std::size_t moves = 0;
  for (std::size_t i = 1; i < row.size(); ++i) {
    const Nanoseconds time = row.times[i];
    if (row.times[i - 1] <= time) continue;
    const Line line = row.line(i);
    std::size_t to = i;
    for (; to > 0 && row.times[to - 1] > time; --to) {
      row.times[to] = row.times[to - 1];
      row.set_line(to, row.line(to - 1));
    }
    row.times[to] = time;
    row.set_line(to, line);
    moves += i - to;
    if (moves > kMovesOfLine * row.size()) return false;
  }
  return true;
}

void sort_by_merging(LineRow& row) {
  std::vector<std::uint32_t> order(row.size());
  std::iota(order.begin(), order.end(), 0U);
  std::ranges::stable_sort(order,
                           [&](std::uint32_t a, std::uint32_t b) { return row.times[a] < row.times[b]; });
  std::vector<Line> sorted;
  sorted.reserve(order.size());
  for (const std::uint32_t i : order) sorted.push_back(row.line(i));
  row.replace(sorted);
}

}  // namespace

void sort_by_time(LineRows& rows) {
  const std::vector<RankRange> ranges = ranges_of(rows);
  all_at_once(ranges.size(), [&](std::size_t i) {
    for (RankId rank = ranges[i].first; rank < ranges[i].last; rank = next(rank)) {
      LineRow& row = rows[rank];
      PPSIM_CHECK(row.times.size() == row.size(), "every line needs a time");
      if (!row.after.empty()) row.name_lines();
      if (!sort_by_moving(row)) sort_by_merging(row);
      row.times = {};
    }
  });
}

void order_by_issue(LineRows& rows) {
  for (LineRow& row : rows) {
    std::int32_t last_compute = -1;
    for (std::size_t i = 0; i < row.size(); ++i) {
      const Line line = row.line(i);
      if (computes(line)) last_compute = line.id;
      if (is_communication(line.action.kind) && last_compute >= 0)
        row.after.push_back({line.id, last_compute});
    }
  }
}

void place_arrivals(const Pipeline& pipeline, const LoweringOptions& options, LineRows& rows) {
  for (const RankId rank : pipeline.rank_ids()) {
    RowPlacer(pipeline, options, rank, rows[rank]).run();
  }
}

}  // namespace ppsim::lowering
