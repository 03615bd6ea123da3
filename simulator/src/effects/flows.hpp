#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "ppsim/core/ir/units.hpp"
#include "ppsim/simulator/effects/shared_links.hpp"

namespace ppsim::simulator {

/// A whole quotient, rounded down. Below 2^53 by doubles, which take a fraction of the time of a division of
/// 64 bits on many processors, and give the same: where it is no whole number, the next one is at least 1 /
/// divisor away, and rounding moves it by less. Requires: dividend >= 0, 0 < divisor < 2^53.
[[nodiscard]] inline std::int64_t whole_quotient(std::int64_t dividend, std::int64_t divisor) {
  if (dividend >= std::int64_t{1} << 53) return dividend / divisor;
  return static_cast<std::int64_t>(static_cast<double>(dividend) / static_cast<double>(divisor));
}

/// The links of each of many routes, in one array.
class Routes {
 public:
  /// The number of the new route.
  std::uint32_t add(std::span<const LinkTake> takes) {
    takes_.insert(takes_.end(), takes.begin(), takes.end());
    firsts_.push_back(static_cast<std::uint32_t>(takes_.size()));
    return static_cast<std::uint32_t>(size() - 1);
  }
  [[nodiscard]] std::span<const LinkTake> operator[](std::uint32_t route) const {
    return {takes_.data() + firsts_[route], firsts_[route + 1] - firsts_[route]};
  }
  [[nodiscard]] std::size_t size() const { return firsts_.size() - 1; }

 private:
  std::vector<LinkTake> takes_;
  std::vector<std::uint32_t> firsts_ = {0};  ///< of each route, and one past the end
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
/// Where few flows are in flight, nobody looks for those that are tied: rates of all are found from sets of
/// flows that fit a word, and only the next end is told.
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
  /// One that takes no time.
  void pass(std::uint32_t route);
  /// Whether it ends now, after all changes.
  [[nodiscard]] bool ends(std::uint32_t flow, Nanoseconds now) const { return end_of_[flow] == now; }
  void finish(std::uint32_t flow, Nanoseconds now);
  /// Gives rates for all that has begun and finished since the last call: ends that are new or have changed.
  /// Where few flows are in flight, or one clock counts, of those that come next.
  const std::vector<End>& settle(Nanoseconds now);

  /// The same for who asks for the next ends instead of being told: ends that are new or have changed where
  /// `next_end` does not say which is next.
  const std::vector<End>& settle_untold(Nanoseconds now);
  /// The next end, unless `settle_untold` has given it; else no time is later.
  [[nodiscard]] Nanoseconds next_end() const { return next_end_; }
  /// All flows that end then, unless it has.
  [[nodiscard]] std::span<const std::uint32_t> next_flows() const { return next_flows_; }

  [[nodiscard]] bool takes_links(std::uint32_t route) const { return !routes_[route].empty(); }
  [[nodiscard]] Rate rate(std::uint32_t flow) const { return tie_ ? clock_.rate() : flows_[flow].rate; }
  [[nodiscard]] std::vector<LinkUse> uses() const;

 private:
  __extension__ using Parts = __int128;
  static constexpr std::uint32_t kFew = 64;
  static constexpr Nanoseconds kNoEnd = -1;
  struct Flow {
    Parts left = 0;
    Nanoseconds since = 0;
    Nanoseconds told = -1;  ///< the end that the caller was told while few were in flight
    Rate rate = 0;          ///< 0: none yet
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
  /// The part of a link that finding rates reads, apart from the rest so that it stays in the cache.
  struct LinkLoad {
    Rate capacity = 0;
    Rate left = 0;               ///< while rates are found
    std::uint32_t streams = 0;   ///< of the flows that are on it
    std::uint32_t open = 0;      ///< of those without a rate
    std::uint32_t max_fast = 0;  ///< streams that it carries at full speed
    bool is_seed = false;        ///< full, before or after a flow has come or gone
    bool is_reached = false;
    bool is_listed = false;  ///< among those that may be full
    bool holds = false;      ///< some flow below full speed
  };
  /// The rate of each of so many streams on a link, where all have the same.
  struct FairShare {
    Rate rate = 0;
    std::uint32_t streams = 0;
  };
  /// A full link with flows that have no rate, while rates of few flows are found.
  struct Filling {
    std::uint32_t link;
    std::uint32_t open;   ///< streams of the flows without a rate
    std::uint64_t flows;  ///< all that are on it
    Rate left;
    Rate share;  ///< of an open stream
  };
  /// The smallest share of some full links, and all flows of those that have it; full speed where no share is
  /// below that, and what flows are is of no use then.
  struct Narrowest {
    Rate share = kFullSpeed;
    std::uint64_t flows = 0;
    void add(const Filling& filling) {
      const std::uint64_t as_narrow = filling.share <= share ? filling.flows : 0;
      flows = (filling.share < share ? 0 : flows) | as_narrow;
      share = std::min(share, filling.share);
    }
  };
  /// Few flows of one rate.
  struct Level {
    Rate rate;
    std::uint64_t flows;
  };
  struct LinkState {
    std::uint64_t few = 0;     ///< flows on it that have a number below kFew
    std::vector<OnLink> many;  ///< the others, and some that are over
    std::int64_t count = 0;    ///< of all that are not over
    Nanoseconds since = 0;     ///< that it is busy
    Nanoseconds held_since = 0;
    LinkUse use;
  };

  /// The flow in a set of few. Requires: a number below kFew.
  [[nodiscard]] static std::uint64_t bit_of(std::uint32_t flow) { return std::uint64_t{1} << flow; }
  [[nodiscard]] bool is_full(std::uint32_t link) const {
    return loads_[link].streams > loads_[link].max_fast;
  }
  [[nodiscard]] bool is_there(const OnLink& on) const {
    return flows_[on.flow].moving && flows_[on.flow].use == on.use;
  }
  /// The rate of each stream where all on the link have the same. Requires: there are some.
  [[nodiscard]] Rate fair_share(std::uint32_t link) {
    const LinkLoad& load = loads_[link];
    FairShare& fair = fair_[link];
    if (fair.streams != load.streams)
      fair = {std::max<Rate>(whole_quotient(load.capacity, load.streams), 1), load.streams};
    return fair.rate;
  }
  /// Sees to whether the link holds some flow back.
  void set_held(std::uint32_t link, bool holds, Nanoseconds now) {
    if (loads_[link].holds != holds) change_held(link, now);
  }
  /// The flows of a full link need other rates.
  void mark(std::uint32_t link) {
    if (!loads_[link].is_seed) add_seed(link);
  }
  /// A common clock is worth its start for so many flows, and where so few links have to be looked at.
  [[nodiscard]] bool may_be_tied() const { return moving_ >= 8 && loads_.size() <= 64; }
  [[nodiscard]] bool has_many() const { return flows_.size() - free_.size() > kFew; }
  [[nodiscard]] std::uint32_t free_number();
  void add_few(std::uint32_t flow);
  void remove_few(std::uint32_t flow);
  void forget_wide_links(Nanoseconds now);
  [[nodiscard]] bool keep_full(std::uint32_t link, Nanoseconds now);
  [[nodiscard]] bool ties_all(std::uint32_t link);
  [[nodiscard]] bool stays_tied(Nanoseconds now);
  [[nodiscard]] std::optional<std::uint32_t> tying_link();
  [[nodiscard]] std::optional<std::uint32_t> tying_few(const Narrowest& narrowest) const;
  void settle_tied(std::uint32_t link, Nanoseconds now);
  void tie(std::uint32_t link, Nanoseconds now);
  void untie(Nanoseconds now);
  void find_next_tied(Nanoseconds now);
  void change_held(std::uint32_t link, Nanoseconds now);
  void add_seed(std::uint32_t link);
  void forget_ended(LinkState& link) const;
  void settle_few(bool may_tie, Nanoseconds now);
  [[nodiscard]] Narrowest look_at_full_links(Nanoseconds now);
  void fill_few(Narrowest narrowest, Nanoseconds now);
  [[nodiscard]] Narrowest take(std::uint64_t flows, Rate share, Nanoseconds now);
  void forget_levels_of_begun();
  void set_rates(std::uint64_t flows, Rate rate, Nanoseconds now);
  [[nodiscard]] std::uint32_t streams_on(std::uint32_t link, std::uint64_t flows) const;
  void find_next_few();
  void settle_many(bool may_tie, Nanoseconds now);
  void find_many(Nanoseconds now);
  void find_neighbours();
  void reach(std::uint32_t flow);
  void find_rates();
  [[nodiscard]] Rate smallest_share();
  void fix(Rate share);
  bool set_rate(std::uint32_t flow, Rate rate, Nanoseconds now);
  void tell(std::uint32_t flow);
  void tell_few();
  void count_held(std::uint32_t link, Nanoseconds now);
  /// Calls `f` with every flow on a link.
  template <class F>
  void for_each_on(std::uint32_t link, F f);

  const Routes& routes_;
  std::vector<LinkLoad> loads_;
  std::vector<FairShare> fair_;
  std::vector<LinkState> links_;
  std::vector<Flow> flows_;
  std::vector<Nanoseconds> end_of_;        ///< of each flow; kNoEnd: it has none, or is over
  std::uint64_t few_ = 0;                  ///< flows that have a number below kFew, by their numbers
  std::uint64_t wide_ = 0;                 ///< those of them that have several streams on a link
  std::vector<std::uint32_t> free_;        ///< numbers from kFew on
  std::vector<std::uint32_t> begun_;       ///< since the last settle
  std::vector<std::uint32_t> full_;        ///< links that are full, and maybe others
  std::vector<Filling> filling_;           ///< those that are full
  std::size_t open_links_ = 0;             ///< how many of these have flows without a rate, at its front
  std::vector<Level> levels_;              ///< of few flows, as they were settled last, and maybe others
  std::vector<Level> last_levels_;         ///< those before, while rates are found
  std::vector<std::uint32_t> reached_;     ///< first the seeds: links whose flows may get other rates
  std::vector<std::uint32_t> neighbours_;  ///< these flows
  std::vector<Rate> rates_;                ///< of flows, by their numbers, while they are found
  std::vector<std::uint32_t> narrowest_;
  std::vector<std::uint32_t> fixed_;
  std::vector<End> ends_;
  std::optional<std::uint32_t> tie_;       ///< the link that all flows are on, at the rate of the clock
  FairClock clock_;                        ///< of all flows while there is a tie
  std::vector<std::uint32_t> next_flows_;  ///< while there is a tie, the only ones that have ends
  Nanoseconds next_end_ = std::numeric_limits<Nanoseconds>::max();
  std::int64_t moving_ = 0;   ///< flows
  bool has_changed_ = false;  ///< since the last settle
  bool next_alone_ = false;   ///< of the ends none is told but the next ones
};

}  // namespace ppsim::simulator
