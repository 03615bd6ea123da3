#include "v_order.hpp"

#include <algorithm>
#include <functional>
#include <queue>

#include "families/placements.hpp"

namespace ppsim::schedules {
namespace {

constexpr std::array<OpKind, kVKinds> kOpKinds = {OpKind::forward,         OpKind::forward,
                                                  OpKind::backward_input,  OpKind::backward_input,
                                                  OpKind::backward_weight, OpKind::backward_weight};

constexpr std::size_t index(VKind kind) { return static_cast<std::size_t>(kind); }
constexpr bool is_forward(VKind kind) { return kind <= VKind::forward_up; }
constexpr bool is_weight(VKind kind) { return kind >= VKind::weight_down; }
constexpr bool goes_down(VKind kind) { return kind == VKind::forward_down || kind == VKind::input_down; }

/// I of a W.
constexpr VKind input_of(VKind kind) {
  return kind == VKind::weight_down ? VKind::input_down : VKind::input_up;
}
constexpr VKind next_of(VKind kind) { return static_cast<VKind>(index(kind) + 1); }

/// The stage on which a rank computes a kind.
StageId stage_of(VKind kind, int rank, int ranks) {
  const bool first = kind == VKind::forward_down || kind == VKind::input_up || kind == VKind::weight_up;
  return StageId(first ? rank : 2 * ranks - 1 - rank);
}

/// Who reads what a rank's F or I gives.
struct Reader {
  bool exists = true;
  std::size_t rank = 0;
  VKind kind = VKind::forward_down;
};

Reader reader_of(VKind kind, std::size_t rank, std::size_t ranks) {
  const bool turns = goes_down(kind) ? rank + 1 == ranks : rank == 0;
  if (!turns) return {true, goes_down(kind) ? rank + 1 : rank - 1, kind};
  return {kind != VKind::input_up, rank, next_of(kind)};
}

/// Time for each microbatch in the middle of a run, from the ends of the microbatches.
Nanoseconds middle_time(const std::vector<Nanoseconds>& ends) {
  const std::size_t from = ends.size() / 3;
  const std::size_t to = 2 * ends.size() / 3;
  return to > from ? (ends[to] - ends[from]) / static_cast<Nanoseconds>(to - from) : 0;
}

/// Free ranks start what is ready, by time.
class ListRun {
 public:
  ListRun(const VProblem& problem, const VOrder& order, ReorderPolicy policy)
      : problem_(problem), order_(order), policy_(policy), ranks_(order.size()) {
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      Rank& rank = ranks_[r];
      rank.done.assign(order[r].size(), 0);
      rank.row.reserve(order[r].size());
      for (std::size_t k = 0; k < kVKinds; ++k) rank.places[k].reserve(count());
      for (std::size_t i = 0; i < order[r].size(); ++i) {
        rank.places[index(order[r][i])].push_back(static_cast<std::int32_t>(i));
      }
    }
    ranks_.front().arrivals[0].assign(count(), 0);
  }

  VRun run() {
    for (std::size_t r = 0; r < ranks_.size(); ++r) wake(0, r);
    while (!events_.empty()) {
      const auto [time, r] = events_.top();
      events_.pop();
      if (ranks_[r].free > time) continue;
      if (const int kind = choose(ranks_[r], r, time); kind >= 0) start(static_cast<VKind>(kind), r, time);
    }
    return result();
  }

 private:
  struct Rank {
    std::array<std::vector<std::int32_t>, kVKinds> places;  // in the order, by kind and microbatch
    std::array<std::vector<Nanoseconds>, 4> arrivals;       // of what F and I read
    std::array<std::size_t, kVKinds> next = {};
    std::vector<char> done;  // by place
    VRow row;
    std::size_t head = 0;  // the first place that is not done
    int live = 0;
    Nanoseconds begin = -1;
    Nanoseconds free = 0;
  };
  using Event = std::pair<Nanoseconds, std::size_t>;

  [[nodiscard]] std::size_t count() const { return as_size(problem_.microbatches); }
  void wake(Nanoseconds time, std::size_t rank) { events_.emplace(std::max(time, ranks_[rank].free), rank); }

  [[nodiscard]] static bool is_ready(const Rank& rank, VKind kind, Nanoseconds time) {
    const std::size_t i = rank.next[index(kind)];
    if (is_weight(kind)) return i < rank.next[index(input_of(kind))];
    const std::vector<Nanoseconds>& arrivals = rank.arrivals[index(kind)];
    return i < arrivals.size() && arrivals[i] <= time;
  }

  /// Whether the F at a place of the order may come next.
  [[nodiscard]] bool fits(const Rank& rank, const VRow& row, std::size_t place) const {
    int live = rank.live;
    for (std::size_t i = rank.head; i < place && live < problem_.limit; ++i) {
      if (rank.done[i] != 0) continue;
      if (is_forward(row[i])) ++live;
      if (is_weight(row[i])) --live;
    }
    return live < problem_.limit;
  }

  /// The kind that a rank starts now, -1 for none.
  [[nodiscard]] int choose(const Rank& rank, std::size_t r, Nanoseconds time) const {
    const VRow& row = order_[r];
    std::size_t best = row.size();
    std::size_t spare = row.size();  // a W for want of anything else
    for (std::size_t k = 0; k < kVKinds; ++k) {
      const auto kind = static_cast<VKind>(k);
      if (rank.next[k] == count() || !is_ready(rank, kind, time)) continue;
      const auto place = as_size(rank.places[k][rank.next[k]]);
      const bool first = place == rank.head;
      if (place >= best) continue;
      if (is_forward(kind) && !fits(rank, row, place)) continue;
      if (is_weight(kind) && !first && policy_ == ReorderPolicy::but_last) {
        spare = std::min(spare, place);
      } else {
        best = place;
      }
    }
    if (best == row.size()) best = spare;
    return best < row.size() ? static_cast<int>(row[best]) : -1;
  }

  void start(VKind kind, std::size_t r, Nanoseconds time) {
    Rank& rank = ranks_[r];
    const std::size_t i = rank.next[index(kind)]++;
    rank.done[as_size(rank.places[index(kind)][i])] = 1;
    while (rank.head < rank.done.size() && rank.done[rank.head] != 0) ++rank.head;
    rank.row.push_back(kind);
    if (rank.begin < 0) rank.begin = time;
    rank.free = time + problem_.ranks[r].duration[index(kind)];
    if (is_forward(kind)) ++rank.live;
    if (is_weight(kind)) --rank.live;
    wake(rank.free, r);
    if (!is_weight(kind)) deliver(kind, r, rank.free);
    if (r == 0 && kind == VKind::input_up) ends_.push_back(rank.free);
  }

  void deliver(VKind kind, std::size_t r, Nanoseconds time) {
    const Reader reader = reader_of(kind, r, ranks_.size());
    if (!reader.exists) return;
    const bool crosses = reader.rank != r;
    const Nanoseconds transfer = crosses ? problem_.ranks[reader.rank].transfer[index(reader.kind)] : 0;
    ranks_[reader.rank].arrivals[index(reader.kind)].push_back(time + transfer);
    if (crosses) wake(time + transfer, reader.rank);
  }

  VRun result() {
    VRun run{.order = {}, .complete = true};
    for (Rank& rank : ranks_) {
      run.complete = run.complete && rank.row.size() == rank.done.size();
      run.span = std::max(run.span, rank.free - rank.begin);
      run.makespan = std::max(run.makespan, rank.free);
      run.order.push_back(std::move(rank.row));
    }
    if (run.complete) run.per_microbatch = middle_time(ends_);
    return run;
  }

  const VProblem& problem_;
  const VOrder& order_;
  ReorderPolicy policy_;
  std::vector<Rank> ranks_;
  std::vector<Nanoseconds> ends_;  // of the microbatches
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
};

/// Ranks in turn, each as far as it can go.
class FixedRun {
 public:
  FixedRun(const VProblem& problem, const VOrder& order)
      : problem_(problem), order_(order), ranks_(order.size()) {
    for (Rank& rank : ranks_) {
      for (std::vector<Nanoseconds>& arrivals : rank.arrivals) arrivals.reserve(count());
    }
    ranks_.front().arrivals[0].assign(count(), 0);
  }

  VRun run() {
    VRun run{.order = order_, .complete = true};
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t r = 0; r < ranks_.size(); ++r) moved = advance(r) || moved;
    }
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      run.complete = run.complete && ranks_[r].at == order_[r].size();
      run.span = std::max(run.span, ranks_[r].free - ranks_[r].begin);
      run.makespan = std::max(run.makespan, ranks_[r].free);
    }
    if (run.complete) run.per_microbatch = middle_time(ends_);
    return run;
  }

 private:
  struct Rank {
    std::array<std::vector<Nanoseconds>, 4> arrivals;
    std::array<std::size_t, 4> next = {};
    std::size_t at = 0;
    int live = 0;
    Nanoseconds begin = -1;
    Nanoseconds free = 0;
  };

  [[nodiscard]] std::size_t count() const { return as_size(problem_.microbatches); }

  /// Runs what a rank can; whether that was anything.
  bool advance(std::size_t r) {
    Rank& rank = ranks_[r];
    const VRow& row = order_[r];
    const std::size_t first = rank.at;
    for (; rank.at < row.size(); ++rank.at) {
      const VKind kind = row[rank.at];
      if (is_forward(kind) && rank.live == problem_.limit) break;
      if (!is_weight(kind)) {
        const std::size_t i = rank.next[index(kind)];
        if (i == rank.arrivals[index(kind)].size()) break;
        rank.free = std::max(rank.free, rank.arrivals[index(kind)][i]);
        ++rank.next[index(kind)];
      }
      if (rank.begin < 0) rank.begin = rank.free;
      rank.free += problem_.ranks[r].duration[index(kind)];
      rank.live += is_forward(kind) ? 1 : is_weight(kind) ? -1 : 0;
      if (!is_weight(kind)) deliver(kind, r, rank.free);
    }
    return rank.at > first;
  }

  void deliver(VKind kind, std::size_t r, Nanoseconds time) {
    const Reader reader = reader_of(kind, r, ranks_.size());
    if (r == 0 && kind == VKind::input_up) ends_.push_back(time);
    if (reader.exists) ranks_[reader.rank].arrivals[index(reader.kind)].push_back(time + transfer(reader, r));
  }
  [[nodiscard]] Nanoseconds transfer(const Reader& reader, std::size_t from) const {
    return reader.rank == from ? 0 : problem_.ranks[reader.rank].transfer[index(reader.kind)];
  }

  const VProblem& problem_;
  const VOrder& order_;
  std::vector<Rank> ranks_;
  std::vector<Nanoseconds> ends_;
};

VKind kind_of(const Action& action, int ranks) {
  const bool first = action.subject < ranks;
  if (action.kind == OpKind::forward) return first ? VKind::forward_down : VKind::forward_up;
  if (action.kind == OpKind::backward_input) return first ? VKind::input_up : VKind::input_down;
  return first ? VKind::weight_up : VKind::weight_down;
}

}  // namespace

VRun run_order(const VProblem& problem, const VOrder& order, ReorderPolicy policy) {
  if (policy == ReorderPolicy::none) return FixedRun(problem, order).run();
  return ListRun(problem, order, policy).run();
}

VOrder order_of(const Schedule& schedule) {
  const int ranks = schedule.pipeline().ranks();
  VOrder order(as_size(ranks));
  for (int r = 0; r < ranks; ++r) {
    for (const Cell& cell : schedule.row(RankId(r))) {
      order[as_size(r)].push_back(kind_of(cell.actions().front(), ranks));
    }
  }
  return order;
}

Expected<Schedule> schedule_of(const std::string& name, const VOrder& order, int microbatches) {
  const auto ranks = static_cast<int>(order.size());
  PPSIM_ASSIGN_OR_RETURN(auto pipeline,
                         make_chain(ranks, 2 * ranks, microbatches, folded_placement(ranks, 2)));
  ScheduleBuilder builder(name, std::move(pipeline));
  for (int r = 0; r < ranks; ++r) {
    std::array<int, kVKinds> next = {};
    for (const VKind kind : order[as_size(r)]) {
      builder.add(kOpKinds[index(kind)], stage_of(kind, r, ranks), MicrobatchId(next[index(kind)]++));
    }
  }
  return std::move(builder).build();
}

}  // namespace ppsim::schedules
