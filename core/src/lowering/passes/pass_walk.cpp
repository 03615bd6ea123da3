#include "pass_walk.hpp"

#include <algorithm>

#include "lowering/order/action_costs.hpp"
#include "lowering/order/cell_facts.hpp"
#include "ppsim/core/execution/rank_windows.hpp"

namespace ppsim::lowering {
namespace {

class PassWalker {
 public:
  PassWalker(const Pipeline& pipeline, const CellRows& rows, const CostTable* costs)
      : rows_(rows),
        costs_(pipeline, costs),
        facts_(pipeline, rows, costs_, CellFacts::Keep::times_and_sweeps),
        states_(as_size(rows.ranks())),
        can_run_(states_.size(), 1),
        times_(states_.size()) {
    for (const RankId rank : times_.ids()) {
      times_[rank].resize(rows[rank].size());
      open_cells_ += rows[rank].size();
    }
  }

  std::optional<PassTimes> run() {
    run_in_windows(rows_.ranks(), [&](RankId rank) {
      if (can_run_[rank] == 0) return false;
      can_run_[rank] = 0;
      advance(rank);
      return true;
    });
    if (open_cells_ > 0) return std::nullopt;
    return std::move(times_);
  }

 private:
  struct RankState {
    std::size_t position = 0;
    Nanoseconds free = 0;     ///< end of the cell before
    std::int32_t sweep = -1;  ///< of the cell before
  };

  /// Retires what a rank can retire.
  void advance(RankId rank) {
    RankState& state = states_[rank];
    const std::span<const Cell> row = rows_[rank];
    const std::size_t before = state.position;
    while (state.position < row.size() && retire(row[state.position], state, times_[rank][state.position]))
      ++state.position;
    open_cells_ -= state.position - before;
  }

  bool retire(const Cell& cell, RankState& state, PassTime& time) {
    if (cell.idle()) return true;
    if (cell.overlapped()) return false;
    const Action& action = cell.actions().front();
    const CellFacts::Pass* const pass = facts_.pass_of(action);
    if (pass == nullptr) return false;
    const Nanoseconds ready = facts_.ready_at(*pass, action.microbatch);
    if (ready < 0) return false;
    time.start = std::max(ready, state.free);
    time.end = state.free = checked_add(time.start, pass->duration);
    time.sweep = state.sweep = std::max(state.sweep + 1, facts_.sweep_of_needs(*pass, action.microbatch));
    facts_.provide(*pass, action.microbatch, time.end);
    facts_.show_from(*pass, action.microbatch, time.sweep, [&](RankId rank) { can_run_[rank] = 1; });
    facts_.expect_after(*pass, action.microbatch);
    constexpr int kAhead = 4;  // cells
    __builtin_prefetch(&cell + kAhead);
    __builtin_prefetch(&time + kAhead, 1);
    return true;
  }

  const CellRows& rows_;
  ActionCosts costs_;
  CellFacts facts_;
  IdVector<RankId, RankState> states_;
  IdVector<RankId, char> can_run_;  ///< there may be something to retire
  PassTimes times_;
  std::size_t open_cells_ = 0;  ///< that are not retired
};

}  // namespace

std::optional<PassTimes> walk_passes(const Pipeline& pipeline, const CellRows& rows, const CostTable* costs) {
  const auto is_more = [](OpKind kind) { return !computes_stage(kind); };
  for (const RankId rank : rows.rank_ids()) {
    if (rows.kinds(rank).any_of(is_more)) return std::nullopt;
  }
  return PassWalker(pipeline, rows, costs).run();
}

}  // namespace ppsim::lowering
