#include "activities.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <utility>
#include <vector>

#include "ppsim/core/ir/check.hpp"

namespace ppsim::simulator {
namespace {

/// Entries that come out by time, all of one time together. None goes in that is before what came out last.
/// Source: radix heap (Ahuja, Mehlhorn, Orlin and Tarjan, Journal of the ACM 37, 1990): an entry lies in the
/// bucket of the highest bit in which its time differs from the last one, and only moves to lower ones.
template <class Entry>
class TimeQueue {
 public:
  void push(Nanoseconds time, const Entry& entry) {
    PPSIM_CHECK(time >= last_, "an entry before the last one");
    const std::size_t bucket = bucket_of(time);
    used_ |= std::uint64_t{1} << bucket;
    buckets_[bucket].emplace_back(time, entry);
    if (time < next_) next_ = time;
  }

  [[nodiscard]] bool empty() const { return used_ == 0; }

  /// The earliest time; where it is empty, no time is later.
  [[nodiscard]] Nanoseconds next() const { return next_; }
  /// Replaces `taken` by the entries of that time. Requires: not empty.
  void pop(std::vector<Entry>& taken) {
    if (last_ != next_) spread_first_bucket();
    taken.clear();
    for (const auto& [time, entry] : buckets_[0]) taken.push_back(entry);
    buckets_[0].clear();
    used_ &= ~std::uint64_t{1};
    find_next();
  }

 private:
  static constexpr Nanoseconds kLatest = std::numeric_limits<Nanoseconds>::max();

  // Times have 63 bits, so there are 64 buckets.
  [[nodiscard]] std::size_t bucket_of(Nanoseconds time) const {
    return static_cast<std::size_t>(
        std::bit_width(static_cast<std::uint64_t>(time) ^ static_cast<std::uint64_t>(last_)));
  }

  void spread_first_bucket() {
    const auto bucket = static_cast<std::size_t>(std::countr_zero(used_));
    spread_.clear();
    std::swap(spread_, buckets_[bucket]);
    used_ &= ~(std::uint64_t{1} << bucket);
    last_ = next_;
    for (const auto& [time, entry] : spread_) push(time, entry);
  }

  void find_next() {
    next_ = kLatest;
    if (used_ == 0) return;
    for (const auto& [time, entry] : buckets_[static_cast<std::size_t>(std::countr_zero(used_))])
      next_ = std::min(next_, time);
  }

  std::array<std::vector<std::pair<Nanoseconds, Entry>>, 64> buckets_;
  std::vector<std::pair<Nanoseconds, Entry>> spread_;  ///< kept for its memory
  std::uint64_t used_ = 0;                             ///< a bit for each bucket with entries
  Nanoseconds last_ = 0;
  Nanoseconds next_ = kLatest;
};

class ActivityRun {
 public:
  ActivityRun(const ActivityGraph& graph, const CopyGrid& copies, Flows& flows)
      : graph_(graph), copies_(copies), flows_(flows), count_(graph.size()) {
    waits_.resize(count_ * copies.size());
    for (std::size_t copy = 0; copy < copies.size(); ++copy) {
      for (std::size_t i = 0; i < count_; ++i)
        waits_[copy * count_ + i] = graph.activities[i].waits * members(copies, graph.activities[i].joint);
    }
    ends_.resize(waits_.size());
  }

  std::vector<Instant> run() {
    for (std::uint32_t copy = 0; copy < copies_.size(); ++copy) round_.push_back({copy, 0});
    pass_instant();
    while (!queue_.empty() || !flows_.next_flows().empty()) {
      now_ = {std::min(queue_.next(), flows_.next_end()), 0};
      if (queue_.next() == now_.time) take_from_queue();
      if (flows_.next_end() == now_.time)
        for (const std::uint32_t flow : flows_.next_flows()) finish(flow);
      pass_instant();
    }
    PPSIM_CHECK(ended_ == expected(), "activities that never end");
    return std::move(ends_);
  }

 private:
  /// An activity of a copy, or, with the copy kFlow, the number of a flow.
  struct Place {
    std::uint32_t copy;
    std::uint32_t activity;
  };
  static constexpr std::uint32_t kFlow = UINT32_MAX;

  [[nodiscard]] std::size_t expected() const {
    std::size_t all = 0;
    for (std::size_t i = 0; i < count_; ++i)
      all += copies_.size() / members(copies_, graph_.activities[i].joint);
    return all;
  }

  void take_from_queue() {
    queue_.pop(due_);
    for (const Place& place : due_) {
      if (place.copy == kFlow) {
        finish(place.activity);
      } else {
        round_.push_back(place);
      }
    }
  }

  /// A flow, if it ends now.
  void finish(std::uint32_t flow) {
    if (!flows_.ends(flow, now_.time)) return;
    flows_.finish(flow, now_.time);
    round_.push_back(flow_places_[flow]);
  }

  /// Round by round, all that ends at this time; then the rates until the next one.
  void pass_instant() {
    while (!round_.empty()) {
      for (std::size_t i = 0; i < round_.size(); ++i) end(round_[i]);  // joins are appended
      round_.clear();
      std::swap(round_, next_round_);
      ++now_.delta;
    }
    for (const Flows::End& end : flows_.settle_untold(now_.time)) queue_.push(end.at, {kFlow, end.flow});
  }

  void end(Place place) {
    ends_[place.copy * count_ + place.activity] = now_;
    ++ended_;
    const Activity& activity = graph_.activities[place.activity];
    const std::uint32_t step = activity.joint == Joint::data ? copies_.tensor : 1;
    for (std::uint32_t member = 0; member < members(copies_, activity.joint); ++member)
      tell_successors(place.copy + member * step, place.activity);
  }

  void tell_successors(std::uint32_t copy, std::uint32_t activity) {
    const std::uint32_t last = graph_.activities[activity + 1].first_successor;
    for (std::uint32_t i = graph_.activities[activity].first_successor; i < last; ++i) {
      const std::uint32_t successor = graph_.successors[i];
      const Place place{first_member(copies_, graph_.activities[successor].joint, copy), successor};
      if (--waits_[place.copy * count_ + successor] == 0) start(place);
    }
  }

  void start(Place place) {
    const Activity& activity = graph_.activities[place.activity];
    const Nanoseconds duration = graph_.durations[activity.duration];
    if (activity.duration == CompiledProgram::kJoin) {
      round_.push_back(place);
    } else if (duration == 0) {
      if (activity.route != Activity::kNoRoute) flows_.pass(activity.route + place.copy);
      next_round_.push_back(place);
    } else if (activity.route == Activity::kNoRoute || !flows_.takes_links(activity.route + place.copy)) {
      queue_.push(now_.time + duration, place);
    } else {
      const std::uint32_t flow = flows_.begin(activity.route + place.copy, duration, now_.time);
      if (flow >= flow_places_.size()) flow_places_.resize(flow + 1);
      flow_places_[flow] = place;
    }
  }

  const ActivityGraph& graph_;
  CopyGrid copies_;
  Flows& flows_;
  std::size_t count_;
  std::vector<std::uint32_t> waits_;  ///< of every activity of every copy
  std::vector<Instant> ends_;
  std::vector<Place> flow_places_;  ///< by the numbers of flows
  TimeQueue<Place> queue_;
  std::vector<Place> due_;
  std::vector<Place> round_;
  std::vector<Place> next_round_;
  Instant now_;
  std::size_t ended_ = 0;
};

}  // namespace

ActivityGraph ActivityGraphBuilder::build() && {
  const std::size_t count = graph_.activities.size();
  for (const auto& [before, waiter] : edges_) {
    ++graph_.activities[before].first_successor;
    ++graph_.activities[waiter].waits;
    PPSIM_CHECK(graph_.activities[waiter].waits != 0, "more waits of an activity than 16 bits count");
  }
  std::uint32_t end = 0;
  for (Activity& activity : graph_.activities) activity.first_successor = end += activity.first_successor;
  graph_.successors.resize(edges_.size());
  for (const auto& [before, waiter] : edges_)
    graph_.successors[--graph_.activities[before].first_successor] = waiter;
  graph_.activities.push_back({.first_successor = end});
  PPSIM_CHECK(count < UINT32_MAX, "more activities than 32 bits can number");
  return std::move(graph_);
}

ActivityGraph activities_of(const CompiledProgram& program, const BoundCosts& costs, const Routes& routes) {
  PPSIM_CHECK(routes.size() == program.flow_items.size(), "a route for every message and match");
  std::vector<std::uint32_t> of_item(program.items.size(), Activity::kNoRoute);
  for (std::uint32_t flow = 0; flow < program.flow_items.size(); ++flow)
    of_item[program.flow_items[flow]] = flow;
  ActivityGraphBuilder builder;
  for (const Nanoseconds duration : costs.durations) builder.duration(duration);
  for (std::uint32_t i = 1; i < program.items.size(); ++i) {
    const CompiledItem& item = program.items[i];
    builder.add({.duration = item.duration, .route = of_item[i]});
    builder.wait(i, item.first);
    if (item.second != item.first) builder.wait(i, item.second);
  }
  return std::move(builder).build();
}

std::vector<Instant> run_activities(const ActivityGraph& graph, const CopyGrid& copies, Flows& flows) {
  return ActivityRun(graph, copies, flows).run();
}

}  // namespace ppsim::simulator
