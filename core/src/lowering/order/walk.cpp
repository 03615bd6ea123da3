#include "walk.hpp"

#include <algorithm>
#include <optional>
#include <sstream>
#include <utility>

#include "action_costs.hpp"
#include "cell_facts.hpp"
#include "ppsim/core/io/text.hpp"
#include "ppsim/core/ir/sequences.hpp"

namespace ppsim::lowering {
namespace {

/// Facts that make an update wait for communication, which runs beside compute.
bool is_communicated(FactTimes::Place place) {
  const auto kind = static_cast<FactKind>(place.kind);
  return kind == FactKind::reduced || kind == FactKind::collected;
}

/// A cell that its rank has come to, and what it waits for.
struct Pending {
  std::size_t position = 0;
  const CellFacts::Pass* pass = nullptr;  ///< whose needs are known; else `needs` has them
  Action action;                          ///< the pass
  std::vector<FactTimes::Place> needs;
  std::span<const AfterEdge> after;
  std::size_t met = 0;      ///< of needs
  Nanoseconds start = 0;    ///< no earlier than this
  bool fills_gaps = false;  ///< an OPT that waits for a REDUCE_GRAD or a norm
  bool computes = false;    ///< on the compute queue
  bool is_passed = false;   ///< lets the cells after it pass
};

struct RankState {
  Pending head;
  std::vector<Pending> passed;    ///< cells that others have passed, in the order of the row
  Nanoseconds free = 0;           ///< end of the last compute cell
  Nanoseconds copied = 0;         ///< end of the last copy
  Nanoseconds compute_start = 0;  ///< start of the last compute cell
  std::vector<Nanoseconds> ends;  ///< by place, where the row orders cells by `after`
  std::size_t next_edge = 0;      ///< of the row's `after`
  std::int64_t moved_in_sweep = -1;
};

class Walker {
 public:
  Walker(const Pipeline& pipeline, const CellRows& rows, const CostTable* costs,
         const std::function<void(WalkItems)>& take)
      : pipeline_(pipeline),
        rows_(rows),
        take_(take),
        costs_(pipeline, costs),
        facts_(pipeline, rows, costs_),
        states_(as_size(pipeline.ranks())),
        gathered_at_(as_size(pipeline.stages()), 0) {}

  /// Returns: the makespan.
  Expected<Nanoseconds> run() {
    items_.reserve(kTaken);
    for (int r = 0; r < rows_.ranks(); ++r) {
      if (!rows_.after(RankId(r)).empty())
        states_[as_size(r)].ends.assign(rows_[RankId(r)].size(), FactTimes::kNotYet);
      load_head(RankId(r), 0);
      if (!finished(RankId(r))) ++open_ranks_;
    }
    while (open_ranks_ > 0) {
      if (!sweep()) return make_error(ErrorCode::deadlock, describe_deadlock());
    }
    take_(std::move(items_));
    return makespan_;
  }

 private:
  static constexpr std::size_t kTaken = 4096;  ///< items at a time

  void load_head(RankId rank, std::size_t position) {
    const std::span<const Cell> row = rows_[rank];
    while (position < row.size() && row[position].idle()) ++position;
    RankState& state = states_[rank.index()];
    Pending& head = state.head;
    head.position = position;
    // After a pass mostly comes another, and nothing else is set.
    if (head.pass != nullptr && position < row.size() && load_pass(row, state)) return;
    std::vector<FactTimes::Place> needs = std::move(head.needs);
    needs.clear();
    head = {.position = position, .needs = std::move(needs)};
    if (position == row.size()) return;
    if (rows_.after(rank).empty() && load_pass(row, state)) return;
    const Action& first = row[position].actions().front();
    const bool updates = first.kind == OpKind::optimizer;
    facts_.for_each_need(row[position], rank, [&](FactTimes::Place place) {
      head.needs.push_back(place);
      head.fills_gaps = head.fills_gaps || (updates && is_communicated(place));
    });
    // Actions off the compute queue are due by their place in the row, a collective between passes by the
    // passes.
    const bool by_passes =
        first.kind == OpKind::collective && pipeline_.spec().collectives[first.collective()].per_microbatch();
    head.computes = info(first.kind).resource == Resource::compute;
    if (!head.computes && !by_passes) head.start = state.compute_start;
    // Later cells may pass communication, which runs beside compute, and the updates that wait for it.
    head.is_passed = is_communication(first.kind) || head.fills_gaps;
    load_after(rank, state);
  }

  /// The head of a row without edges, where it is a pass whose facts are known.
  bool load_pass(std::span<const Cell> row, RankState& state) {
    Pending& head = state.head;
    const Cell& cell = row[head.position];
    if (head.position + 3 < row.size()) __builtin_prefetch(&cell + 3);  // ranks take turns
    head.action = cell.actions().front();
    head.pass = cell.overlapped() ? nullptr : facts_.pass_of(head.action);
    head.computes = true;
    return head.pass != nullptr;
  }

  /// The edges of the head; heads come in the order of the row, as edges do.
  void load_after(RankId rank, RankState& state) {
    const std::vector<AfterEdge>& edges = rows_.after(rank);
    const auto position = static_cast<std::int32_t>(state.head.position);
    const std::size_t begin = state.next_edge;
    while (state.next_edge < edges.size() && edges[state.next_edge].later == position) ++state.next_edge;
    state.head.after = {edges.data() + begin, state.next_edge - begin};
  }

  bool sweep() {
    bool moved = false;
    for (int r = 0; r < rows_.ranks(); ++r) {
      if (states_[as_size(r)].moved_in_sweep != sweep_) moved = visit(RankId(r)) || moved;
    }
    ++sweep_;
    return moved;
  }

  /// Retires one cell of a rank if it can, those that others have passed first.
  bool visit(RankId rank) {
    RankState& state = states_[rank.index()];
    if (state.passed.empty() && !state.head.is_passed) {
      if (state.head.pass != nullptr) return try_pass(rank, state);
      return !at_end(rank) && try_retire(rank, state.head);
    }
    for (Pending& pending : state.passed) {
      if (!pending.fills_gaps && try_retire(rank, pending)) return true;
    }
    bool passed = false;
    for (; state.head.is_passed; passed = true) {
      if (!state.head.fills_gaps && try_retire(rank, state.head)) return true;
      state.passed.push_back(state.head);
      load_head(rank, state.head.position + 1);
    }
    if (Pending* update = update_in_gap(rank)) return try_retire(rank, *update);
    return (!at_end(rank) && try_retire(rank, state.head)) || passed;
  }

  /// The first update that costs the cell after it no time: one that is over before that cell can start, or
  /// any where nothing is left or the cell waits for an update itself.
  Pending* update_in_gap(RankId rank) {
    RankState& state = states_[rank.index()];
    const bool waits = !at_end(rank) && !ready(rank, state.head);
    if (waits && !needs_update(state.head)) return nullptr;
    Pending* best = nullptr;
    for (Pending& pending : state.passed) {
      if (!pending.fills_gaps || !ready(rank, pending) || !(at_end(rank) || waits || fits(rank, pending)))
        continue;
      if (best == nullptr || pending.start < best->start) best = &pending;
    }
    return best;
  }

  /// Whether a ready update is over before the ready cell after it starts.
  bool fits(RankId rank, const Pending& update) {
    const Pending& next = states_[rank.index()].head;
    const Nanoseconds start = earliest_start(rank, update);
    const Nanoseconds limit = earliest_start(rank, next);
    return next.computes && start < limit && start + duration(cell_of(rank, update), rank) <= limit;
  }

  [[nodiscard]] bool needs_update(const Pending& pending) const {
    return std::ranges::any_of(pending.needs, [&](FactTimes::Place place) {
      return place.kind == static_cast<std::uint32_t>(FactKind::updated) && facts_.at(place) < 0;
    });
  }

  [[nodiscard]] bool at_end(RankId rank) const {
    return states_[rank.index()].head.position == rows_[rank].size();
  }
  [[nodiscard]] bool finished(RankId rank) const {
    return at_end(rank) && states_[rank.index()].passed.empty();
  }
  [[nodiscard]] const Cell& cell_of(RankId rank, const Pending& pending) const {
    return rows_[rank][pending.position];
  }

  bool ready(RankId rank, Pending& pending) {
    const std::vector<Nanoseconds>& ends = states_[rank.index()].ends;
    for (; !pending.after.empty(); pending.after = pending.after.subspan(1)) {
      const Nanoseconds end = ends[as_size(pending.after.front().earlier)];
      if (end < 0) return false;
      pending.start = std::max(pending.start, end);
    }
    if (pending.pass != nullptr) {
      pending.start = facts_.ready_at(*pending.pass, pending.action.microbatch);
      return pending.start >= 0;
    }
    for (; pending.met < pending.needs.size(); ++pending.met) {
      const Nanoseconds time = facts_.at(pending.needs[pending.met]);
      if (time < 0) return false;
      pending.start = std::max(pending.start, time);
    }
    return true;
  }

  /// The cell of `partner` that is the other end of a cell of `rank`, when it has come to it and is ready.
  Pending* other_end(RankId rank, const Pending& pending, RankId partner) {
    const Action& own = cell_of(rank, pending).actions().front();
    const Action wanted = is_transfer(own.kind) ? counterpart(own, rank) : own;
    RankState& state = states_[partner.index()];
    const auto is_it = [&](Pending& p) { return cell_of(partner, p) == Cell(wanted) && ready(partner, p); };
    for (Pending& p : state.passed) {
      if (is_it(p)) return &p;
    }
    return !at_end(partner) && is_it(state.head) ? &state.head : nullptr;
  }

  /// try_retire of a head that load_pass has identified, as nearly all are.
  bool try_pass(RankId rank, RankState& state) {
    Pending& head = state.head;
    const Nanoseconds ready = facts_.ready_at(*head.pass, head.action.microbatch);
    if (ready < 0) return false;
    const Nanoseconds start = std::max({ready, state.free, gathered_at_[head.action.stage().index()]});
    const Nanoseconds end = checked_add(start, head.pass->duration);
    facts_.provide(*head.pass, head.action.microbatch, end);
    end_cell(rank, head, start, end);
    return true;
  }

  bool try_retire(RankId rank, Pending& pending) {
    if (!ready(rank, pending)) return false;
    const Cell& cell = cell_of(rank, pending);
    Nanoseconds start = earliest_start(rank, pending);
    if (pending.computes) {
      retire(rank, pending, start, checked_add(start, costs_.of_cell(cell)));
      return true;
    }
    const std::vector<RankId> partners = partners_of(pipeline_, cell.actions().front(), rank);
    std::vector<Pending*> ends;
    for (const RankId partner : partners) {
      ends.push_back(other_end(rank, pending, partner));
      if (ends.back() == nullptr) return false;
      start = std::max(start, earliest_start(partner, *ends.back()));
    }
    const Nanoseconds end = checked_add(start, duration(cell, rank));
    retire(rank, pending, start, end);
    for (std::size_t i = 0; i < partners.size(); ++i) retire(partners[i], *ends[i], start, end);
    return true;
  }

  [[nodiscard]] Nanoseconds earliest_start(RankId rank, const Pending& pending) const {
    const RankState& state = states_[rank.index()];
    Nanoseconds start = pending.start;
    for (const Action& action : cell_of(rank, pending).actions()) {
      const Resource resource = info(action.kind).resource;
      if (resource == Resource::compute) start = std::max(start, state.free);
      if (resource == Resource::copy) start = std::max(start, state.copied);
      if (info(action.kind).subject == Subject::stage) {
        start = std::max(start, gathered_at_[action.stage().index()]);
      }
    }
    return start;
  }

  /// A transfer is looked up by its SEND.
  Nanoseconds duration(const Cell& cell, RankId rank) {
    const Action& action = cell.actions().front();
    if (is_receive(action.kind)) return costs_.of_cell(Cell(counterpart(action, rank)));
    return costs_.of_cell(cell);
  }

  void retire(RankId rank, Pending& pending, Nanoseconds start, Nanoseconds end) {
    RankState& state = states_[rank.index()];
    const Cell& cell = cell_of(rank, pending);
    const Action& first = cell.actions().front();
    if (info(first.kind).resource == Resource::copy) state.copied = end;
    if (!state.ends.empty()) state.ends[pending.position] = end;
    if (first.kind == OpKind::unshard) gathered_at_[first.stage().index()] = end;
    facts_.provide(cell, rank, end);
    end_cell(rank, pending, start, end);
  }

  /// Goes on to the next one.
  void end_cell(RankId rank, Pending& pending, Nanoseconds start, Nanoseconds end) {
    items_.push_back({rank, static_cast<std::int32_t>(pending.position), start, end});
    if (items_.size() == kTaken) {
      take_(std::exchange(items_, {}));
      items_.reserve(kTaken);
    }
    makespan_ = std::max(makespan_, end);
    RankState& state = states_[rank.index()];
    if (pending.computes) {
      state.compute_start = start;
      state.free = end;
    }
    state.moved_in_sweep = sweep_;
    leave(rank, pending);
    if (finished(rank)) --open_ranks_;
  }

  void leave(RankId rank, Pending& pending) {
    RankState& state = states_[rank.index()];
    if (&pending == &state.head) {
      load_head(rank, pending.position + 1);
    } else {
      state.passed.erase(state.passed.begin() + (&pending - state.passed.data()));
    }
  }

  /// The first thing that a stuck rank waits for.
  [[nodiscard]] const Pending& stuck_at(RankId rank) const {
    const RankState& state = states_[rank.index()];
    if (at_end(rank)) return state.passed.front();
    for (const Pending& pending : state.passed) {
      const auto place = static_cast<std::int32_t>(pending.position);
      if (!state.head.after.empty() && state.head.after.front().earlier == place) return pending;
    }
    return state.head;
  }

  /// The rank for which a stuck rank waits.
  [[nodiscard]] RankId blocker_of(RankId rank) {
    const Pending& pending = stuck_at(rank);
    const Cell& cell = cell_of(rank, pending);
    if (const std::optional<Fact> missing = facts_.first_missing(cell, rank)) {
      const bool received =
          missing->kind == FactKind::received_forward || missing->kind == FactKind::received_backward;
      return received ? pipeline_.rank_of(StageId(missing->peer)) : rank;
    }
    for (const RankId partner : partners_of(pipeline_, cell.actions().front(), rank)) {
      if (other_end(rank, pending, partner) == nullptr) return partner;
    }
    return rank;
  }

  std::string describe_deadlock() {
    RankId rank(0);
    while (finished(rank)) rank = RankId(rank.value() + 1);
    std::vector<RankId> chain;
    while (std::ranges::find(chain, rank) == chain.end() && !finished(rank)) {
      chain.push_back(rank);
      rank = blocker_of(rank);
    }
    std::ostringstream text;
    text << "the rows wait for each other";
    const auto first = std::ranges::find(chain, rank);
    for (auto at = first == chain.end() ? chain.begin() : first; at != chain.end(); ++at) {
      const RankId next = at + 1 == chain.end() ? rank : *(at + 1);
      text << "\nrank " << *at << ": " << cell_text(pipeline_, cell_of(*at, stuck_at(*at)))
           << " waits for rank " << next;
      if (finished(next)) {
        text << ", which is done";
      } else if (next == *at) {
        text << ", its own row further on";
      } else {
        text << ", which is at " << cell_text(pipeline_, cell_of(next, stuck_at(next)));
      }
    }
    return text.str();
  }

  const Pipeline& pipeline_;
  const CellRows& rows_;
  const std::function<void(WalkItems)>& take_;
  ActionCosts costs_;
  CellFacts facts_;
  std::vector<RankState> states_;
  std::vector<Nanoseconds> gathered_at_;  // by stage: end of the last UNSHARD
  std::size_t open_ranks_ = 0;
  std::int64_t sweep_ = 0;
  WalkItems items_;  ///< those that are not taken yet
  Nanoseconds makespan_ = 0;
};

}  // namespace

Expected<EarliestTimes> walk(const Pipeline& pipeline, const CellRows& rows, const CostTable* costs) {
  EarliestTimes times;
  const auto take = [&](const WalkItems& items) { append_all(times.walk, items); };
  PPSIM_ASSIGN_OR_RETURN(times.makespan, Walker(pipeline, rows, costs, take).run());
  return times;
}

Expected<void> walk(const Pipeline& pipeline, const CellRows& rows, const CostTable* costs,
                    const std::function<void(WalkItems)>& take) {
  return Walker(pipeline, rows, costs, take).run().map([](Nanoseconds) {});
}

}  // namespace ppsim::lowering
