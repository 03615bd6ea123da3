#include "jaxpp_tasks.hpp"

#include <algorithm>
#include <span>
#include <utility>

#include "fact_times.hpp"
#include "lowering/insert/transfers.hpp"

namespace ppsim::lowering {
namespace {

bool is_same(const FactTimes::Place& a, const FactTimes::Place& b) {
  return a.kind == b.kind && a.index == b.index;
}

/// The time that an action adds to the end of its task, and when its output exists.
struct JaxppLatency {
  Nanoseconds whole = 1;
  Nanoseconds ready = 1;
};

/// A chain of several chunks on each rank, round-robin.
bool is_interleaved(const Pipeline& pipeline) {
  if (pipeline.stages() <= pipeline.ranks() || pipeline.spec().routes.size() != 1) return false;
  for (int s = 0; s < pipeline.stages(); ++s) {
    if (pipeline.rank_of(StageId(s)).value() != s % pipeline.ranks()) return false;
  }
  return std::ranges::all_of(pipeline.spec().edges,
                             [](const StageEdge& edge) { return edge.to.value() == edge.from.value() + 1; });
}

class JaxppOrder {
 public:
  JaxppOrder(const Pipeline& pipeline, const CellRows& rows)
      : pipeline_(pipeline), rows_(rows), interleaved_(is_interleaved(pipeline)) {
    for (const RankId rank : rows.rank_ids()) {
      for (const Cell& cell : rows[rank]) {
        for (const Action& action : cell.actions())
          splits_ = splits_ || action.kind == OpKind::backward_input;
      }
    }
  }

  Expected<std::vector<JaxppTask>> in_order() {
    announce();
    std::vector<JaxppTask> tasks = as_they_start();
    if (!all_done()) return make_error(ErrorCode::deadlock, "the tasks of JaxPP wait for each other");
    std::ranges::stable_sort(tasks, {}, [&](const JaxppTask& task) {
      return std::pair(task.start, task.start + duration(task, true));
    });
    count_again(tasks);
    return tasks;
  }

 private:
  using Place = FactTimes::Place;
  struct Head {
    JaxppTask task;
    std::vector<Place> needs;
    std::size_t met = 0;
    bool exists = false;
  };

  [[nodiscard]] std::span<const Cell> cells_of(const JaxppTask& task) const {
    return rows_[task.rank].subspan(as_size(task.first), as_size(task.cells));
  }
  [[nodiscard]] static bool computes(const Cell& cell) {
    if (cell.idle()) return false;
    const OpKind kind = cell.actions().front().kind;
    return info(kind).resource == Resource::compute && kind != OpKind::optimizer;
  }

  [[nodiscard]] JaxppLatency latency_of(const Action& action, bool in_order) const {
    if (action.kind == OpKind::recompute) return {0, 0};
    if (action.kind != OpKind::backward) return {};
    if (!splits_) return {2, 2};
    if (action.subject == 0) return in_order ? JaxppLatency{2, 2} : JaxppLatency{};
    return {2, 1};
  }
  [[nodiscard]] Nanoseconds duration(const JaxppTask& task, bool in_order) const {
    Nanoseconds sum = 0;
    for (const Cell& cell : cells_of(task)) {
      for (const Action& action : cell.actions()) sum += latency_of(action, in_order).whole;
    }
    return sum;
  }

  /// The task that begins at or behind a place of a row; of no cells at its end.
  [[nodiscard]] JaxppTask task_at(RankId rank, std::int32_t place) const {
    const std::span<const Cell> row = rows_[rank];
    const auto size = static_cast<std::int32_t>(row.size());
    const auto at = [&](std::int32_t i) -> const Cell& { return row[as_size(i)]; };
    while (place < size && !computes(at(place))) ++place;
    JaxppTask task{rank, place, place < size ? 1 : 0};
    if (place + 1 >= size) return task;
    if (at(place).actions().front().kind == OpKind::recompute) {
      task.cells += task_at(rank, place + 1).cells;
    } else if (is_last_forward(at(place)) && is_backward(at(place + 1))) {
      ++task.cells;
    }
    return task;
  }
  [[nodiscard]] bool is_last_forward(const Cell& cell) const {
    return interleaved_ && !cell.overlapped() && cell.actions().front().kind == OpKind::forward &&
           cell.actions().front().subject == pipeline_.stages() - 1;
  }
  [[nodiscard]] static bool is_backward(const Cell& cell) {
    return !cell.idle() && !cell.overlapped() && cell.actions().front().kind == OpKind::backward;
  }

  /// Calls visit(place) for what the completion of an action makes true, on other ranks too.
  template <class Visit>
  void for_each_provided(const Action& action, RankId rank, Visit&& visit) {
    const auto on = [&](const Action& done, RankId where) {
      provided_.clear();
      provided_facts(pipeline_, done, where, provided_);
      for (const Fact& fact : provided_) visit(facts_.place_of(fact, where));
    };
    on(action, rank);
    for_each_transfer(pipeline_, action, [&](const Action&, const Action& receive) {
      on(receive, pipeline_.rank_of(receive.stage()));
    });
  }
  void provide(const Action& action, RankId rank, Nanoseconds time) {
    for_each_provided(action, rank, [&](Place place) { facts_.set(place, time); });
  }

  void announce() {
    for (const RankId rank : rows_.rank_ids()) {
      for (const Cell& cell : rows_[rank]) {
        if (!computes(cell)) continue;
        for (const Action& action : cell.actions()) provide(action, rank, FactTimes::kNotYet);
      }
    }
  }

  /// The outputs that a task waits for, those of its own actions aside.
  [[nodiscard]] std::vector<Place> needs_of(const JaxppTask& task) {
    std::vector<Place> needs;
    std::vector<Place> inner;
    for (const Cell& cell : cells_of(task)) {
      for (const Action& action : cell.actions()) {
        required_.clear();
        required_facts(pipeline_, action, task.rank, required_);
        for (const Requirement& need : required_) {
          const Place place = facts_.place_of(need.fact, task.rank);
          const bool own = std::ranges::any_of(inner, [&](const Place& p) { return is_same(p, place); });
          if (!own && facts_.at(place) != FactTimes::kNever) needs.push_back(place);
        }
        for_each_provided(action, task.rank, [&](Place place) { inner.push_back(place); });
      }
    }
    return needs;
  }

  void load_head(Head& head, RankId rank, std::int32_t place) {
    head.task = task_at(rank, place);
    head.exists = head.task.cells > 0;
    head.met = 0;
    if (head.exists) head.needs = needs_of(head.task);
  }

  bool ready(Head& head) {
    for (; head.met < head.needs.size(); ++head.met) {
      const Nanoseconds time = facts_.at(head.needs[head.met]);
      if (time < 0) return false;
      head.task.start = std::max(head.task.start, time);
    }
    return true;
  }

  /// The tasks as they can start, with the times at which they do.
  std::vector<JaxppTask> as_they_start() {
    std::vector<JaxppTask> tasks;
    heads_.resize(as_size(rows_.ranks()));
    for (int r = 0; r < rows_.ranks(); ++r) load_head(heads_[as_size(r)], RankId(r), 0);
    while (Head* first = first_to_start()) {
      const JaxppTask task = first->task;
      tasks.push_back(task);
      complete(task);
      load_head(*first, task.rank, task.first + task.cells);
      first->task.start = task.start + duration(task, true);
    }
    return tasks;
  }

  Head* first_to_start() {
    Head* first = nullptr;
    for (Head& head : heads_) {
      if (!head.exists || !ready(head)) continue;
      if (first == nullptr || head.task.start < first->task.start) first = &head;
    }
    return first;
  }

  void complete(const JaxppTask& task) {
    Nanoseconds end = task.start;
    for (const Cell& cell : cells_of(task)) {
      for (const Action& action : cell.actions()) {
        const JaxppLatency latency = latency_of(action, true);
        provide(action, task.rank, end + latency.ready);
        end += latency.whole;
      }
    }
  }

  [[nodiscard]] bool all_done() const { return std::ranges::none_of(heads_, &Head::exists); }

  /// The times of the tasks one after another in the order that they have.
  void count_again(std::vector<JaxppTask>& tasks) {
    announce();
    std::vector<Nanoseconds> free(heads_.size(), 0);
    for (JaxppTask& task : tasks) {
      task.start = free[task.rank.index()];
      for (const Place& need : needs_of(task)) task.start = std::max(task.start, facts_.at(need));
      const Nanoseconds end = task.start + duration(task, false);
      free[task.rank.index()] = end;
      for (const Cell& cell : cells_of(task)) {
        for (const Action& action : cell.actions()) provide(action, task.rank, end);
      }
    }
  }

  const Pipeline& pipeline_;
  const CellRows& rows_;
  bool interleaved_;
  bool splits_ = false;
  FactTimes facts_{pipeline_};
  std::vector<Head> heads_;
  std::vector<Fact> provided_;
  std::vector<Requirement> required_;
};

}  // namespace

Expected<std::vector<JaxppTask>> jaxpp_tasks(const Pipeline& pipeline, const CellRows& rows) {
  return JaxppOrder(pipeline, rows).in_order();
}

}  // namespace ppsim::lowering
