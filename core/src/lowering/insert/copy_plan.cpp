#include "copy_plan.hpp"

#include <algorithm>

#include "ppsim/core/ir/sequences.hpp"

namespace ppsim::lowering {
namespace {

Action with_kind(Action action, OpKind kind) {
  action.kind = kind;
  return action;
}

bool is_computation(const Cell& cell) { return !cell.idle() && computes_stage(cell.actions().front().kind); }

/// Whether a cell makes saved activations.
bool saves(const Cell& cell) {
  return std::ranges::any_of(cell.actions(), [](const Action& a) {
    return a.kind == OpKind::forward || a.kind == OpKind::recompute;
  });
}

std::vector<std::size_t> compute_places(std::span<const Cell> row) {
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < row.size(); ++i) {
    if (is_computation(row[i])) places.push_back(i);
  }
  return places;
}

/// The last of some ascending places before `place`.
std::size_t last_before(const std::vector<std::size_t>& places, std::size_t place) {
  const auto at = std::ranges::lower_bound(places, place);
  return at == places.begin() ? Copy::kNone : *(at - 1);
}

/// Lays the copies of one rank beside its computation.
class CopyPlanner {
 public:
  CopyPlanner(const std::vector<Wait>& waits, const CostTable& costs, std::span<const Cell> row,
              const RowTimes& times)
      : row_(row), times_(times), computes_(compute_places(row)) {
    for (const Wait& wait : waits) {
      const Action offload = with_kind(wait.forward, OpKind::offload);
      const Action reload = with_kind(wait.forward, OpKind::reload);
      const Trip trip{wait, costs(cost_class_of(offload)), costs(cost_class_of(reload)), 0, false};
      if (times.end[wait.from] + trip.out + trip.back <= times.start[wait.until]) trips_.push_back(trip);
    }
    for (std::size_t i = 0; i < trips_.size(); ++i) returns_.push_back(i);
    std::ranges::sort(
        returns_, [&](std::size_t a, std::size_t b) { return trips_[a].wait.until < trips_[b].wait.until; });
    set_deadlines();
  }

  std::optional<std::vector<Copy>> run() {
    std::size_t out = 0;
    std::size_t back = 0;
    while (back < returns_.size()) {
      const bool can_return = trips_[returns_[back]].is_out;
      const bool can_leave = out < trips_.size();
      const Nanoseconds leaves = can_leave ? std::max(free_, times_.end[trips_[out].wait.from]) : 0;
      const Trip& next = trips_[returns_[back]];
      const Nanoseconds deadline = next.latest;
      // Where computation takes no time a forward behind the backward of `next` is over just as early.
      const bool in_time =
          can_leave && trips_[out].wait.from < next.wait.until && leaves + trips_[out].out <= deadline;
      if (can_leave && (!can_return || in_time)) {
        leave(trips_[out++], leaves);
      } else {
        come_back(trips_[returns_[back++]], can_leave ? std::min(leaves, deadline) : deadline);
      }
    }
    if (late_) return std::nullopt;
    return std::move(copies_);
  }

 private:
  struct Trip {
    Wait wait;
    Nanoseconds out = 0;     ///< duration of OFFLOAD
    Nanoseconds back = 0;    ///< duration of RELOAD
    Nanoseconds latest = 0;  ///< start of RELOAD that delays nothing
    bool is_out = false;
  };

  void set_deadlines() {
    for (auto i = returns_.rbegin(); i != returns_.rend(); ++i) {
      Trip& trip = trips_[*i];
      const Nanoseconds due = times_.start[trip.wait.until];
      trip.latest = (i == returns_.rbegin() ? due : std::min(due, trips_[*(i - 1)].latest)) - trip.back;
    }
  }

  void leave(Trip& trip, Nanoseconds start) {
    trip.is_out = true;
    free_ = start + trip.out;
    place_ = std::max(place_, trip.wait.from + 1);
    std::size_t next = place_;
    while (next < row_.size() && (!saves(row_[next]) || times_.start[next] < free_)) ++next;
    copies_.push_back({.action = with_kind(trip.wait.forward, OpKind::offload),
                       .place = place_,
                       .holds = next < row_.size() ? next : Copy::kNone});
  }

  void come_back(const Trip& trip, Nanoseconds wanted) {
    const Nanoseconds start = std::max(free_, wanted);
    free_ = start + trip.back;
    late_ = late_ || free_ > times_.start[trip.wait.until];
    const auto later = std::ranges::partition_point(
        computes_, [&](std::size_t place) { return times_.end[place] <= start && place < trip.wait.until; });
    const std::size_t gate = later == computes_.begin() ? Copy::kNone : *(later - 1);
    place_ = std::max(place_, gate == Copy::kNone ? 0 : gate + 1);
    copies_.push_back(
        {.action = with_kind(trip.wait.forward, OpKind::reload), .place = place_, .gate = gate});
  }

  std::span<const Cell> row_;
  const RowTimes& times_;
  std::vector<std::size_t> computes_;
  std::vector<Trip> trips_;           ///< in the order of their F
  std::vector<std::size_t> returns_;  ///< into trips_, in the order of their backward
  Nanoseconds free_ = 0;              ///< end of the last copy
  std::size_t place_ = 0;             ///< of the last copy
  bool late_ = false;                 ///< a backward waits for its RELOAD
  std::vector<Copy> copies_;
};

}  // namespace

std::vector<Copy> plan_copies(const std::vector<Wait>& waits, const LoweringOptions& options,
                              std::span<const Cell> row) {
  const std::vector<std::size_t> computes = compute_places(row);
  const bool placed_later = options.order == IssueOrder::early;
  std::vector<Copy> copies;
  std::vector<Copy> reloads;
  for (const Wait& wait : waits) {
    const auto next = std::ranges::upper_bound(computes, wait.from);
    const std::size_t last = last_before(computes, wait.until);
    if (!placed_later && *next == last) continue;
    copies.push_back({.action = with_kind(wait.forward, OpKind::offload),
                      .place = wait.from + 1,
                      .holds = computes.end() - next > 1 ? *(next + 1) : Copy::kNone});
    reloads.push_back({.action = with_kind(wait.forward, OpKind::reload),
                       .place = placed_later ? wait.until : last,
                       .gate = placed_later ? Copy::kNone : last_before(computes, last)});
  }
  append_all(copies, reloads);
  std::ranges::stable_sort(copies, {}, &Copy::place);
  return copies;
}

std::optional<std::vector<Copy>> plan_copies(const std::vector<Wait>& waits, const CostTable& costs,
                                             std::span<const Cell> row, const RowTimes& times) {
  return CopyPlanner(waits, costs, row, times).run();
}

}  // namespace ppsim::lowering
