#include "lowering/walk.hpp"

#include <algorithm>
#include <sstream>

#include "lowering/action_costs.hpp"
#include "lowering/fact_times.hpp"
#include "lowering/transfers.hpp"
#include "ppsim/core/facts.hpp"
#include "ppsim/core/text.hpp"

namespace ppsim::lowering {
namespace {

/// The ranks that take part in a step beside its own; empty for what a rank does alone.
std::vector<RankId> partners_of(const Pipeline& pipeline, const Action& action, RankId rank) {
  std::vector<RankId> ranks;
  switch (info(action.kind).resource) {
    case Resource::compute:
    case Resource::copy:
      return {};
    case Resource::p2p:
      return {action.peer_rank()};
    case Resource::collective:
      if (action.kind == OpKind::collective) ranks = pipeline.spec().collectives[action.collective()].members;
      if (action.kind == OpKind::reduce_grad) {
        for (const StageId s : pipeline.spec().blocks[action.block()].stages)
          ranks.push_back(pipeline.rank_of(s));
      }
      break;
  }
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  std::erase(ranks, rank);
  return ranks;
}

/// The step that a rank comes to next.
struct Head {
  std::size_t position = 0;
  std::vector<FactTimes::Place> needs;
  std::size_t met = 0;    ///< of needs
  Nanoseconds start = 0;  ///< no earlier than this
  std::vector<RankId> partners;
};

struct RankState {
  Head head;
  Nanoseconds free = 0;           ///< end of the last compute step
  Nanoseconds compute_start = 0;  ///< start of the last compute step
  std::int64_t moved_in_sweep = -1;
};

class Walker {
 public:
  Walker(const Pipeline& pipeline, const StepRows& rows, const CostTable* costs)
      : pipeline_(pipeline),
        rows_(rows),
        costs_(pipeline, costs),
        facts_(pipeline),
        states_(static_cast<std::size_t>(pipeline.ranks())),
        gathered_at_(static_cast<std::size_t>(pipeline.stages()), 0) {}

  Expected<EarliestTimes> run() {
    announce_facts();
    for (int r = 0; r < rows_.ranks(); ++r) {
      load_head(RankId(r), 0);
      if (!finished(RankId(r))) ++open_ranks_;
    }
    while (open_ranks_ > 0) {
      if (!sweep()) return make_error(ErrorCode::deadlock, describe_deadlock());
    }
    return std::move(times_);
  }

 private:
  void announce_facts() {
    std::size_t steps = 0;
    for (int r = 0; r < rows_.ranks(); ++r) {
      steps += rows_[RankId(r)].size();
      for (const Step& step : rows_[RankId(r)]) provide(step, RankId(r), FactTimes::kNotYet);
    }
    times_.walk.reserve(steps);
  }

  /// Writes the time of everything that the completion of a step makes true, on other ranks too.
  void provide(const Step& step, RankId rank, Nanoseconds end) {
    const bool announcing = end == FactTimes::kNotYet;
    for (const Action& action : step.actions()) {
      scratch_.clear();
      provided_facts(pipeline_, action, rank, scratch_);
      for (const Fact& fact : scratch_) facts_.set(facts_.place_of(fact, rank), end);
      for_each_transfer(pipeline_, action, [&](const Action& send, const Action& receive) {
        const RankId to = pipeline_.rank_of(receive.stage());
        const Nanoseconds arrival = announcing ? end : checked_add(end, costs_.of_transfer(send));
        scratch_.clear();
        provided_facts(pipeline_, receive, to, scratch_);
        for (const Fact& fact : scratch_) facts_.set(facts_.place_of(fact, to), arrival);
      });
    }
  }

  void load_head(RankId rank, std::size_t position) {
    const std::span<const Step> row = rows_[rank];
    while (position < row.size() && row[position].idle()) ++position;
    Head& head = states_[rank.index()].head;
    head.position = position;
    head.needs.clear();
    head.partners.clear();
    head.met = 0;
    head.start = 0;
    if (position == row.size()) return;
    for (const Action& action : row[position].actions()) {
      requirements_.clear();
      required_facts(pipeline_, action, rank, requirements_);
      for (const Requirement& requirement : requirements_) {
        const FactTimes::Place place = facts_.place_of(requirement.fact, rank);
        if (requirement.optional && facts_.at(place) == FactTimes::kNever) continue;
        head.needs.push_back(place);
      }
    }
    head.partners = partners_of(pipeline_, row[position].actions().front(), rank);
  }

  bool sweep() {
    bool moved = false;
    for (int r = 0; r < rows_.ranks(); ++r) moved = try_retire(RankId(r)) || moved;
    ++sweep_;
    return moved;
  }

  [[nodiscard]] bool finished(RankId rank) const {
    return states_[rank.index()].head.position == rows_[rank].size();
  }
  [[nodiscard]] const Step& head_step(RankId rank) const {
    return rows_[rank][states_[rank.index()].head.position];
  }

  bool ready(RankId rank) {
    if (finished(rank)) return false;
    Head& head = states_[rank.index()].head;
    for (; head.met < head.needs.size(); ++head.met) {
      const Nanoseconds time = facts_.at(head.needs[head.met]);
      if (time < 0) return false;
      head.start = std::max(head.start, time);
    }
    return true;
  }

  /// Whether the heads of two ranks are the ends of one meeting.
  [[nodiscard]] bool meets(RankId rank, RankId partner) const {
    if (finished(partner)) return false;
    const Action& own = head_step(rank).actions().front();
    const Action& other = head_step(partner).actions().front();
    return is_transfer(own.kind) ? is_transfer(other.kind) && counterpart(own, rank) == other : own == other;
  }

  bool try_retire(RankId rank) {
    if (states_[rank.index()].moved_in_sweep == sweep_ || !ready(rank)) return false;
    const std::vector<RankId> partners = states_[rank.index()].head.partners;
    Nanoseconds start = earliest_start(rank);
    for (const RankId partner : partners) {
      if (!meets(rank, partner) || !ready(partner)) return false;
      start = std::max(start, earliest_start(partner));
    }
    const Nanoseconds end = checked_add(start, duration(rank));
    retire(rank, start, end);
    for (const RankId partner : partners) retire(partner, start, end);
    return true;
  }

  [[nodiscard]] Nanoseconds earliest_start(RankId rank) const {
    const RankState& state = states_[rank.index()];
    Nanoseconds start = state.head.start;
    for (const Action& action : head_step(rank).actions()) {
      const bool computes = info(action.kind).resource == Resource::compute;
      start = std::max(start, computes ? state.free : state.compute_start);
      if (info(action.kind).subject == Subject::stage)
        start = std::max(start, gathered_at_[action.stage().index()]);
    }
    return start;
  }

  /// Of the head step; a transfer is looked up by its SEND.
  Nanoseconds duration(RankId rank) {
    const Action& action = head_step(rank).actions().front();
    return costs_.of_step(is_receive(action.kind) ? Step(counterpart(action, rank)) : head_step(rank));
  }

  void retire(RankId rank, Nanoseconds start, Nanoseconds end) {
    RankState& state = states_[rank.index()];
    const Step& step = head_step(rank);
    const Action& first = step.actions().front();
    if (info(first.kind).resource == Resource::compute) {
      state.compute_start = start;
      state.free = end;
    }
    if (first.kind == OpKind::unshard) gathered_at_[first.stage().index()] = end;
    times_.walk.push_back({rank, static_cast<std::int32_t>(state.head.position), start, end});
    times_.makespan = std::max(times_.makespan, end);
    provide(step, rank, end);
    state.moved_in_sweep = sweep_;
    load_head(rank, state.head.position + 1);
    if (finished(rank)) --open_ranks_;
  }

  /// The rank for which a stuck rank waits.
  [[nodiscard]] RankId blocker_of(RankId rank) {
    if (ready(rank)) {
      const Head& head = states_[rank.index()].head;
      for (const RankId partner : head.partners) {
        if (!meets(rank, partner) || !ready(partner)) return partner;
      }
      return rank;
    }
    const Action& action = head_step(rank).actions().front();
    for (const Action& waiting : head_step(rank).actions()) {
      requirements_.clear();
      required_facts(pipeline_, waiting, rank, requirements_);
      for (const Requirement& need : requirements_) {
        const Nanoseconds time = facts_.at(facts_.place_of(need.fact, rank));
        if (time >= 0 || (need.optional && time == FactTimes::kNever)) continue;
        const bool received =
            need.fact.kind == FactKind::received_forward || need.fact.kind == FactKind::received_backward;
        return received ? pipeline_.rank_of(StageId(need.fact.peer)) : rank;
      }
    }
    return is_transfer(action.kind) ? action.peer_rank() : rank;
  }

  std::string describe_deadlock() {
    RankId rank(0);
    while (finished(rank)) rank = RankId(rank.value() + 1);
    std::vector<RankId> chain;
    while (std::find(chain.begin(), chain.end(), rank) == chain.end() && !finished(rank)) {
      chain.push_back(rank);
      rank = blocker_of(rank);
    }
    std::ostringstream text;
    text << "the rows wait for each other";
    const auto first = std::find(chain.begin(), chain.end(), rank);
    for (auto at = first == chain.end() ? chain.begin() : first; at != chain.end(); ++at) {
      const RankId next = at + 1 == chain.end() ? rank : *(at + 1);
      text << "\nrank " << *at << ": " << step_text(pipeline_, head_step(*at)) << " waits for rank " << next;
      text << (finished(next) ? ", which is done" : next == *at ? ", its own row further on" : "");
    }
    return text.str();
  }

  const Pipeline& pipeline_;
  const StepRows& rows_;
  ActionCosts costs_;
  FactTimes facts_;
  std::vector<RankState> states_;
  std::vector<Nanoseconds> gathered_at_;  // by stage: end of the last UNSHARD
  std::size_t open_ranks_ = 0;
  std::int64_t sweep_ = 0;
  std::vector<Fact> scratch_;
  std::vector<Requirement> requirements_;
  EarliestTimes times_;
};

}  // namespace

Expected<EarliestTimes> walk(const Pipeline& pipeline, const StepRows& rows, const CostTable* costs) {
  return Walker(pipeline, rows, costs).run();
}

}  // namespace ppsim::lowering
