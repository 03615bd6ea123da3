#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <vector>

#include "ppsim/core/ir/units.hpp"
#include "ppsim/simulator/effects/shared_links.hpp"

namespace ppsim::simulator {

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

}  // namespace ppsim::simulator
