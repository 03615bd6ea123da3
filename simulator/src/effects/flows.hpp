#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "ppsim/core/ir/units.hpp"
#include "ppsim/simulator/effects/shared_links.hpp"

namespace ppsim::simulator {

/// The links of each of many routes, in one array.
class Routes {
 public:
  /// The number of the new route.
  std::uint32_t add(std::span<const LinkTake> takes) {
    takes_.insert(takes_.end(), takes.begin(), takes.end());
    ends_.push_back(static_cast<std::uint32_t>(takes_.size()));
    return static_cast<std::uint32_t>(ends_.size() - 1);
  }
  [[nodiscard]] std::span<const LinkTake> operator[](std::uint32_t route) const {
    const std::uint32_t first = route == 0 ? 0 : ends_[route - 1];
    return {takes_.data() + first, ends_[route] - first};
  }
  [[nodiscard]] std::size_t size() const { return ends_.size(); }

 private:
  std::vector<LinkTake> takes_;
  std::vector<std::uint32_t> ends_;
};

/// Those of `links`, in its order.
[[nodiscard]] inline Routes routes_of(const SharedLinks& links) {
  Routes routes;
  for (const auto& taken : links.taken) routes.add(taken);
  return routes;
}

/// How far flows are that all have one rate: one count of the parts that each has moved, whenever it began,
/// instead of one for every flow. A change of the rate costs as much for a thousand flows as for one.
/// Source: the virtual time of fair queueing (Demers, Keshav and Shenker, SIGCOMM 1989).
class FairClock {
 public:
  __extension__ using Parts = __int128;
  /// A flow, by a number and how often that was taken before.
  struct Flow {
    std::uint32_t number = 0;
    std::uint32_t use = 0;
  };

  void start(Nanoseconds now) {
    flows_.clear();
    moved_ = 0;
    since_ = now;
    rate_ = 0;
  }
  /// Moves on to `now`, and goes on at another rate. Requires: rate > 0.
  void go_on(Nanoseconds now, Rate rate) {
    moved_ += Parts{now - since_} * rate_;
    since_ = now;
    rate_ = rate;
  }
  [[nodiscard]] Rate rate() const { return rate_; }

  void add(const Flow& flow, Parts left) {
    flows_.push_back({moved_ + left, flow});
    std::ranges::push_heap(flows_, std::greater{}, &Entry::end);
  }
  /// Takes out those at the front that are over.
  template <class IsOver>
  void drop(IsOver is_over) {
    while (!flows_.empty() && is_over(flows_.front().flow)) {
      std::ranges::pop_heap(flows_, std::greater{}, &Entry::end);
      flows_.pop_back();
    }
  }

  /// The wait until the next flow ends, the last nanosecond of it begun. Requires: there is one; a rate.
  [[nodiscard]] Parts wait() const { return (flows_.front().end - moved_ + rate_ - 1) / rate_; }
  /// Calls `f` with each flow that ends within so long.
  template <class F>
  void within(Parts wait, F f) const {
    visit(0, moved_ + wait * rate_, f);
  }
  /// Calls `f` with every flow and the parts that it has left.
  template <class F>
  void each(F f) const {
    for (const Entry& entry : flows_) f(entry.flow, entry.end - moved_);
  }

 private:
  struct Entry {
    Parts end = 0;  ///< the count at which it is over
    Flow flow;
  };

  /// Nobody below a flow in the heap ends before it.
  template <class F>
  void visit(std::size_t at, Parts limit, F& f) const {
    if (at >= flows_.size() || flows_[at].end > limit) return;
    f(flows_[at].flow);
    visit(2 * at + 1, limit, f);
    visit(2 * at + 2, limit, f);
  }

  std::vector<Entry> flows_;  ///< a heap
  Parts moved_ = 0;
  Nanoseconds since_ = 0;
  Rate rate_ = 0;
};

/// Transfers in flight on shared links, in whole numbers: of a cost of n ns there are n * kFullSpeed parts to
/// move, and what is left of a nanosecond counts as one.
///
/// Rates change once an instant, however many flows begin and end in it, and only those of flows that full
/// links tie to one of them: a link that carries all of its flows at full speed ties nobody. Where one link
/// ties all flows and gives each the same share, a clock that they have in common counts for all of them.
class Flows {
 public:
  /// A flow and the time at which it ends as things are.
  struct End {
    std::uint32_t flow;
    Nanoseconds at;
  };

  /// Requires: both outlive this.
  Flows(const Routes& routes, std::span<const Link> links);

  /// A flow along a route, by a number that is free again when it is over. It has no rate until `settle`.
  /// Requires: a route that takes links, a cost above 0.
  std::uint32_t begin(std::uint32_t route, Nanoseconds cost, Nanoseconds now);
  /// Whether it ends now, after all changes.
  [[nodiscard]] bool ends(std::uint32_t flow, Nanoseconds now) const {
    return flows_[flow].moving && flows_[flow].end == now;
  }
  void finish(std::uint32_t flow, Nanoseconds now);
  /// Gives rates for all that has begun and finished since the last call: ends that are new or have changed.
  const std::vector<End>& settle(Nanoseconds now);

  [[nodiscard]] bool takes_links(std::uint32_t route) const { return !routes_[route].empty(); }
  [[nodiscard]] Rate rate(std::uint32_t flow) const { return tie_ ? clock_.rate() : flows_[flow].rate; }
  [[nodiscard]] std::vector<LinkUse> uses() const;

 private:
  __extension__ using Parts = __int128;
  struct Flow {
    Parts left = 0;
    Nanoseconds since = 0;
    Nanoseconds end = -1;
    Rate rate = 0;  ///< 0: none yet
    std::uint32_t route = 0;
    std::uint32_t use = 0;  ///< how often its number was taken
    bool moving = false;
    bool is_neighbour = false;
  };
  /// A flow that was put on a link, and is there unless its number has been taken again.
  struct OnLink {
    std::uint32_t flow;
    std::uint32_t use;
  };
  /// What finding rates reads of a link; the rest is apart, so that this stays in the cache.
  struct LinkLoad {
    Rate capacity = 0;
    Rate left = 0;               ///< while rates are found
    std::uint32_t streams = 0;   ///< of the flows that are on it
    std::uint32_t open = 0;      ///< of those without a rate
    std::uint32_t max_fast = 0;  ///< streams that it carries at full speed
    bool is_seed = false;        ///< full, before or after a flow has come or gone
    bool is_reached = false;
    bool holds = false;  ///< some flow below full speed
  };
  struct LinkState {
    std::vector<OnLink> flows;
    std::int64_t count = 0;  ///< of those that are not over
    Nanoseconds since = 0;   ///< that it is busy
    Nanoseconds held_since = 0;
    LinkUse use;
  };

  [[nodiscard]] bool is_full(std::uint32_t link) const {
    return loads_[link].streams > loads_[link].max_fast;
  }
  [[nodiscard]] bool is_there(const OnLink& on) const {
    return flows_[on.flow].moving && flows_[on.flow].use == on.use;
  }
  /// What each stream gets where the link has no room for full speed.
  [[nodiscard]] Rate share(std::uint32_t link) const {
    return std::max<Rate>(loads_[link].capacity / loads_[link].streams, 1);
  }
  [[nodiscard]] bool ties_all(std::uint32_t link) const;
  [[nodiscard]] std::optional<std::uint32_t> tying_link() const;
  void settle_tied(std::uint32_t link, Nanoseconds now);
  void tie(std::uint32_t link, Nanoseconds now);
  void untie(Nanoseconds now);
  void report_tied(Nanoseconds now);
  void set_held(std::uint32_t link, bool holds, Nanoseconds now);
  void mark(std::uint32_t link);
  void forget_ended(LinkState& link) const;
  void find_neighbours();
  void reach(std::uint32_t flow);
  void find_rates();
  [[nodiscard]] Rate smallest_share();
  void fix(Rate share);
  void set_rate(std::uint32_t flow, Rate rate, Nanoseconds now);
  void count_held(std::uint32_t link, Nanoseconds now);

  const Routes& routes_;
  std::vector<LinkLoad> loads_;
  std::vector<LinkState> links_;
  std::vector<Flow> flows_;
  std::vector<std::uint32_t> free_;
  std::vector<std::uint32_t> begun_;       ///< since the last settle
  std::vector<std::uint32_t> reached_;     ///< first the seeds: links whose flows may get other rates
  std::vector<std::uint32_t> neighbours_;  ///< these flows
  std::vector<Rate> rates_;                ///< of flows, by their numbers, while they are found
  std::vector<std::uint32_t> narrowest_;
  std::vector<std::uint32_t> fixed_;
  std::vector<End> ends_;
  std::optional<std::uint32_t> tie_;     ///< the link that all flows are on, at the rate of the clock
  FairClock clock_;                      ///< of all flows while there is a tie
  std::vector<std::uint32_t> reported_;  ///< whose ends are known while there is a tie: the next ones
  std::int64_t moving_ = 0;              ///< flows
};

}  // namespace ppsim::simulator
