// The part of Flows for few flows at once, whose numbers are members of sets that fit a word.

#include <algorithm>
#include <bit>
#include <limits>

#include "flows.hpp"

namespace ppsim::simulator {
namespace {

/// Calls `f` with every member of a set of numbers below 64.
template <class F>
void for_each_of(std::uint64_t set, F f) {
  for (; set != 0; set &= set - 1) f(static_cast<std::uint32_t>(std::countr_zero(set)));
}

}  // namespace

void Flows::add_few(std::uint32_t flow) {
  few_ |= bit_of(flow);
  wide_ &= ~bit_of(flow);
  for (const LinkTake& take : routes_[flows_[flow].route]) {
    few_on_[take.link].flows |= bit_of(flow);
    if (take.streams > 1) wide_ |= bit_of(flow);
  }
}

void Flows::remove_few(std::uint32_t flow) {
  few_ &= ~bit_of(flow);
  for (const LinkTake& take : routes_[flows_[flow].route]) few_on_[take.link].flows &= ~bit_of(flow);
}

void Flows::tell(std::uint32_t number) {
  Flow& flow = flows_[number];
  if (flow.told == flow.end) return;
  flow.told = flow.end;
  ends_.push_back({number, flow.end});
}

/// Every end that is known and was not told.
void Flows::tell_few() {
  for_each_of(few_, [&](std::uint32_t flow) {
    if (flows_[flow].rate != 0) tell(flow);
  });
}

/// How many streams some of its flows have on a link.
std::uint32_t Flows::streams_on(std::uint32_t link, std::uint64_t flows) const {
  auto streams = static_cast<std::uint32_t>(std::popcount(flows & ~wide_));
  for_each_of(flows & wide_, [&](std::uint32_t flow) {
    streams += std::ranges::find(routes_[flows_[flow].route], link, &LinkTake::link)->streams;
  });
  return streams;
}

/// Gives flows their rate, and what they take to the links that they are on.
void Flows::fix_few(std::uint64_t flows, Rate share, Nanoseconds now) {
  for_each_of(flows, [&](std::uint32_t flow) { set_rate(flow, share, now); });
  for (Filling& filling : filling_) {
    const std::uint64_t on = filling.flows & flows;
    if (on == 0) continue;
    const std::uint32_t streams =
        filling.share == share ? filling.open : streams_on(filling.link, on);  // a narrowest one: all of them
    filling.left -= share * streams;
    filling.open -= streams;
    filling.share = 0;
  }
}

/// The smallest share of a full link that has flows without a rate, and the flows of the links with that;
/// full speed if that is smaller.
std::pair<Rate, std::uint64_t> Flows::narrowest_few() {
  Rate smallest = kFullSpeed;
  std::uint64_t flows = 0;
  for (Filling& filling : filling_) {
    if (filling.open == 0) continue;
    if (filling.share == 0) filling.share = std::max<Rate>(whole_quotient(filling.left, filling.open), 1);
    if (filling.share > smallest || filling.share == kFullSpeed) continue;
    flows = filling.share < smallest ? filling.flows : flows | filling.flows;
    smallest = filling.share;
  }
  return {smallest, flows};
}

/// Progressive filling of all full links, with the sets of the flows on each.
void Flows::fill_few(Nanoseconds now) {
  filling_.clear();
  for (const std::uint32_t link : full_)
    filling_.push_back(
        {link, loads_[link].streams, few_on_[link].flows, loads_[link].capacity, fair_share(link)});
  std::uint64_t open = few_;
  while (open != 0) {
    const auto [share, narrowed] = narrowest_few();
    if (share == kFullSpeed) break;
    fix_few(narrowed & open, share, now);
    open &= ~narrowed;
  }
  for_each_of(open, [&](std::uint32_t flow) { set_rate(flow, kFullSpeed, now); });
  for (const Filling& filling : filling_) {
    loads_[filling.link].left = filling.left;
    loads_[filling.link].open = filling.open;
    count_held(filling.link, now);
  }
}

/// Of all ends the next ones alone: when they come, the others are asked for again.
void Flows::report_next() {
  Nanoseconds next = std::numeric_limits<Nanoseconds>::max();
  std::uint64_t first = 0;
  for_each_of(few_, [&](std::uint32_t flow) {
    const Nanoseconds end = flows_[flow].end;
    if (end > next) return;
    first = (end < next ? 0 : first) | std::uint64_t{1} << flow;
    next = end;
  });
  for_each_of(first, [&](std::uint32_t flow) { tell(flow); });
}

void Flows::settle_few(Nanoseconds now) {
  if (reached_.empty()) {
    for (const std::uint32_t flow : begun_) set_rate(flow, kFullSpeed, now);
  } else {
    fill_few(now);
  }
  for (const std::uint32_t seed : reached_) {
    loads_[seed].is_seed = false;
    if (!is_full(seed)) set_held(seed, false, now);
  }
  report_next();
}

}  // namespace ppsim::simulator
