#include "unit/verifier/all_orders.hpp"

#include <algorithm>
#include <optional>

namespace ppsim::test::placed {
namespace {

struct Item {
  int stage, phase, microbatch;
  friend bool operator==(const Item&, const Item&) = default;
};
using Row = std::vector<Item>;

/// All rows of a rank in which each (stage, phase) takes the microbatches in their order, and I comes after
/// its F and W after its I.
void extend(const std::vector<int>& stages, int microbatches, std::map<std::pair<int, int>, int>& next,
            Row& row, std::vector<Row>& rows) {
  if (row.size() == stages.size() * 3 * static_cast<std::size_t>(microbatches)) rows.push_back(row);
  for (const int stage : stages) {
    for (int phase = 0; phase < 3; ++phase) {
      const int i = next[{stage, phase}];
      if (i == microbatches || (phase > 0 && i >= next[{stage, phase - 1}])) continue;
      row.push_back({stage, phase, i});
      ++next[{stage, phase}];
      extend(stages, microbatches, next, row, rows);
      --next[{stage, phase}];
      row.pop_back();
    }
  }
}

int peak_of(const Row& row) {
  int live = 0;
  int peak = 0;
  for (const Item& item : row) {
    if (item.phase == 0) peak = std::max(peak, ++live);
    if (item.phase == 2) --live;
  }
  return peak;
}

/// Makespan and span of rows; nothing where they wait for each other.
std::optional<std::pair<Nanoseconds, Nanoseconds>> timed(const Job& job,
                                                         const std::array<const Row*, 2>& rows) {
  std::array<std::array<std::array<Nanoseconds, 2>, 3>, 4> ends;
  for (auto& stage : ends) stage.fill({-1, -1});
  std::array<std::size_t, 2> at = {};
  std::array<Nanoseconds, 2> free = {};
  std::array<Nanoseconds, 2> begin = {-1, -1};
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t r = 0; r < 2; ++r) {
      for (; at[r] < rows[r]->size(); ++at[r], moved = true) {
        const Item& item = (*rows[r])[at[r]];
        const auto stage = static_cast<std::size_t>(item.stage);
        const auto phase = static_cast<std::size_t>(item.phase);
        const auto i = static_cast<std::size_t>(item.microbatch);
        Nanoseconds start = free[r];
        const bool reads = phase == 0 ? stage > 0 : phase == 1 && item.stage + 1 < job.stages();
        if (reads) {
          const Nanoseconds end = ends[phase == 0 ? stage - 1 : stage + 1][phase][i];
          if (end < 0) break;
          start = std::max(start, end + job.lags[stage][phase]);
        }
        if (begin[r] < 0) begin[r] = start;
        free[r] = ends[stage][phase][i] = start + job.times[stage][phase];
      }
    }
  }
  if (at[0] < rows[0]->size() || at[1] < rows[1]->size()) return std::nullopt;
  return std::pair(std::max(free[0], free[1]), std::max(free[0] - begin[0], free[1] - begin[1]));
}

}  // namespace

std::map<int, std::pair<Nanoseconds, Nanoseconds>> exhaustive(const Job& job) {
  std::array<std::vector<Row>, 2> rows;
  for (int r = 0; r < 2; ++r) {
    std::vector<int> stages;
    for (std::size_t s = 0; s < job.placement.size(); ++s) {
      if (job.placement[s] == RankId(r)) stages.push_back(static_cast<int>(s));
    }
    std::map<std::pair<int, int>, int> next;
    Row row;
    extend(stages, job.microbatches, next, row, rows[static_cast<std::size_t>(r)]);
    // Drops rows that would wait for themselves.
    std::erase_if(rows[static_cast<std::size_t>(r)], [&](const Row& candidate) {
      for (std::size_t a = 0; a < candidate.size(); ++a) {
        for (std::size_t b = a + 1; b < candidate.size(); ++b) {
          const Item& first = candidate[a];
          const Item& later = candidate[b];
          if (first.microbatch != later.microbatch || first.phase > 1 || later.phase > first.phase) continue;
          if (later.phase < first.phase) return true;
          if (first.phase == 0 ? later.stage < first.stage : later.stage > first.stage) return true;
        }
      }
      return false;
    });
  }
  std::map<int, std::pair<Nanoseconds, Nanoseconds>> best;
  for (const Row& upper : rows[0]) {
    for (const Row& lower : rows[1]) {
      const auto values = timed(job, {&upper, &lower});
      if (!values) continue;
      for (int limit = std::max(peak_of(upper), peak_of(lower)); limit <= 2 * job.microbatches; ++limit) {
        auto& least = best.emplace(limit, *values).first->second;
        least.first = std::min(least.first, values->first);
        least.second = std::min(least.second, values->second);
      }
    }
  }
  return best;
}

Job::Job(std::vector<RankId> ranks, int count, CostTable table)
    : placement(std::move(ranks)), microbatches(count), costs(std::move(table)) {
  constexpr std::array kKinds = {OpKind::forward, OpKind::backward_input, OpKind::backward_weight};
  for (int s = 0; s < stages(); ++s) {
    times.emplace_back();
    lags.emplace_back();
    for (std::size_t phase = 0; phase < 3; ++phase) times.back()[phase] = costs({kKinds[phase], s, -1, 0});
    if (s > 0 && apart(s - 1, s)) lags.back()[0] = costs({OpKind::send_forward, s - 1, s, 0});
    if (s + 1 < stages() && apart(s + 1, s)) lags.back()[1] = costs({OpKind::send_backward, s + 1, s, 0});
  }
}

}  // namespace ppsim::test::placed
