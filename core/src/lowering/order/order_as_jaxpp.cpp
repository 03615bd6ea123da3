#include "order_as_jaxpp.hpp"

#include <algorithm>
#include <limits>

#include "fact_times.hpp"
#include "jaxpp_tasks.hpp"
#include "lowering/insert/transfers.hpp"
#include "ppsim/core/io/text.hpp"
#include "ppsim/core/ir/sequences.hpp"

namespace ppsim::lowering {
namespace {

/// Whether an action follows all of JaxPP's tasks, which are those that compute a stage.
bool follows_all_tasks(const Pipeline& pipeline, const Action& action) {
  if (action.kind == OpKind::collective)
    return !pipeline.spec().collectives[action.collective()].per_microbatch();
  return action.kind == OpKind::reduce_grad || action.kind == OpKind::optimizer;
}

Expected<void> check_jaxpp_actions(const Pipeline& pipeline, const CellRows& rows) {
  if (pipeline.asynchronous() || pipeline.updates() > 1) {
    return make_error(ErrorCode::bad_argument, "order jaxpp: JaxPP has one update a step",
                      {.found = std::to_string(pipeline.updates()) + " updates", .expected = "1"});
  }
  for (const RankId rank : rows.rank_ids()) {
    for (const Cell& cell : rows[rank]) {
      for (const Action& action : cell.actions()) {
        if (computes_stage(action.kind) || follows_all_tasks(pipeline, action)) continue;
        return make_error(
            ErrorCode::bad_argument, "order jaxpp: JaxPP has no such action",
            {.found = action_text(pipeline, action), .expected = "F, B, I, W, R and what an update needs"});
      }
    }
  }
  return {};
}

/// A message that waits for its place.
struct HeldMessage {
  std::size_t first_use = 0;
  Action send;
  Action receive;
};

class JaxppIssue {
 public:
  JaxppIssue(const Pipeline& pipeline, const CellRows& rows, const std::vector<JaxppTask>& tasks)
      : pipeline_(pipeline), rows_(rows), tasks_(tasks), first_use_(pipeline), lines_(as_size(rows.ranks())) {
    for (std::size_t i = 0; i < tasks.size(); ++i) {
      for_each_action(tasks[i], [&](const Action& action) { note_uses(action, tasks[i].rank, i); });
    }
  }

  LineRows issued(const EarliestTimes& walk) {
    Nanoseconds now = 0;
    for (const JaxppTask& task : tasks_) {
      if (task.start != now) pass_pending();
      now = task.start;
      for (std::int32_t i = 0; i < task.cells; ++i) add(task.rank, task.first + i);
      hold_transfers(task);
    }
    pass_pending();
    for (const EarliestTimes::Item& item : walk.walk) {
      const Cell& cell = rows_[item.rank][as_size(item.position)];
      if (follows_all_tasks(pipeline_, cell.actions().front())) add(item.rank, item.position);
    }
    return std::move(lines_);
  }

 private:
  template <class Visit>
  void for_each_action(const JaxppTask& task, Visit&& visit) {
    const auto cells = rows_[task.rank].subspan(as_size(task.first), as_size(task.cells));
    for (const Cell& cell : cells) {
      for (const Action& action : cell.actions()) visit(action);
    }
  }

  void note_uses(const Action& action, RankId rank, std::size_t task) {
    required_.clear();
    required_facts(pipeline_, action, rank, required_);
    for (const Requirement& need : required_) {
      if (need.fact.kind != FactKind::received_forward && need.fact.kind != FactKind::received_backward)
        continue;
      const FactTimes::Place place = first_use_.place_of(need.fact, rank);
      if (first_use_.at(place) < 0) first_use_.set(place, static_cast<Nanoseconds>(task));
    }
  }

  void add(RankId rank, std::int32_t place) {
    const auto actions = rows_[rank][as_size(place)].actions();
    if (actions.size() == 2) return lines_[rank].add_pair(actions[0], actions[1]);
    lines_[rank].add(actions[0]);
  }

  /// Messages of a task to one rank go together, at the first use of any.
  void hold_transfers(const JaxppTask& task) {
    std::vector<HeldMessage> made;
    for_each_action(task, [&](const Action& action) {
      for_each_transfer(pipeline_, action, [&](const Action& send, const Action& receive) {
        made.push_back({first_use(receive), send, receive});
      });
    });
    std::ranges::stable_sort(made, {}, [&](const HeldMessage& p) { return receiver(p); });
    for (HeldMessage& message : made) {
      for (const HeldMessage& other : made) {
        if (receiver(other) == receiver(message))
          message.first_use = std::min(message.first_use, other.first_use);
      }
    }
    append_all(pending_, made);
  }

  [[nodiscard]] RankId receiver(const HeldMessage& p) const { return pipeline_.rank_of(p.receive.stage()); }

  std::size_t first_use(const Action& receive) {
    const RankId rank = pipeline_.rank_of(receive.stage());
    provided_.clear();
    provided_facts(pipeline_, receive, rank, provided_);
    auto first = std::numeric_limits<std::size_t>::max();
    for (const Fact& fact : provided_) {
      const Nanoseconds use = first_use_.at(first_use_.place_of(fact, rank));
      if (use >= 0) first = std::min(first, as_size(use));
    }
    return first;
  }

  void pass_pending() {
    std::ranges::stable_sort(pending_, {}, &HeldMessage::first_use);
    for (const HeldMessage& message : pending_) {
      lines_[pipeline_.rank_of(message.send.stage())].add(message.send);
      lines_[receiver(message)].add(message.receive);
    }
    pending_.clear();
  }

  const Pipeline& pipeline_;
  const CellRows& rows_;
  const std::vector<JaxppTask>& tasks_;
  FactTimes first_use_;  ///< numbers of tasks
  LineRows lines_;
  std::vector<HeldMessage> pending_;
  std::vector<Fact> provided_;
  std::vector<Requirement> required_;
};

}  // namespace

Expected<LineRows> order_as_jaxpp(const Pipeline& pipeline, const CellRows& rows, const EarliestTimes& walk) {
  PPSIM_RETURN_IF_ERROR(check_jaxpp_actions(pipeline, rows));
  PPSIM_ASSIGN_OR_RETURN(const auto tasks, jaxpp_tasks(pipeline, rows));
  return JaxppIssue(pipeline, rows, tasks).issued(walk);
}

}  // namespace ppsim::lowering
