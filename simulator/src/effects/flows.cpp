#include "flows.hpp"

#include <algorithm>
#include <bit>
#include <limits>
#include <utility>

#include "flow_sets.hpp"
#include "ppsim/core/ir/check.hpp"
#include "ppsim/core/ir/overflow.hpp"

namespace ppsim::simulator {
namespace {

__extension__ using WideRest = __int128;

/// The end of a remaining wait, as far as times have room for it.
Nanoseconds checked_end(WideRest rest, Nanoseconds now) {
  if (rest + now > std::numeric_limits<Nanoseconds>::max()) throw Overflow("a step with shared links");
  return now + static_cast<Nanoseconds>(rest);
}

/// Most are small, and dividing those takes a fraction of the time.
WideRest quotient(WideRest parts, Rate rate) {
  const auto narrow = static_cast<std::int64_t>(parts);
  return narrow == parts ? WideRest{whole_quotient(narrow, rate)} : parts / rate;
}

}  // namespace

Flows::Flows(const Routes& routes, std::span<const Link> links)
    : routes_(routes),
      fair_(links.size()),
      links_(links.size()),
      flows_(kFew),
      end_of_(kFew, kNoEnd),
      rates_(kFew) {
  for (const Link& link : links) {
    const Rate fast = std::min<Rate>(link.capacity / kFullSpeed, std::numeric_limits<std::uint32_t>::max());
    loads_.push_back({.capacity = link.capacity, .max_fast = static_cast<std::uint32_t>(fast)});
  }
}

void Flows::add_seed(std::uint32_t link) {
  loads_[link].is_seed = true;
  reached_.push_back(link);
  if (loads_[link].is_listed) return;
  loads_[link].is_listed = true;
  full_.push_back(link);
}

std::uint32_t Flows::free_number() {
  if (few_ != UINT64_MAX) return static_cast<std::uint32_t>(std::countr_one(few_));
  if (free_.empty()) {
    free_.push_back(static_cast<std::uint32_t>(flows_.size()));
    flows_.emplace_back();
    end_of_.push_back(kNoEnd);
    rates_.push_back(0);
  }
  const std::uint32_t number = free_.back();
  free_.pop_back();
  return number;
}

std::uint32_t Flows::begin(std::uint32_t route, Nanoseconds cost, Nanoseconds now) {
  PPSIM_CHECK(cost > 0 && takes_links(route), "a flow that takes time on a link");
  const std::uint32_t flow = free_number();
  flows_[flow] = {.left = Parts{cost} * kFullSpeed,
                  .since = now,
                  .route = route,
                  .use = flows_[flow].use + 1,
                  .moving = true};
  for (const LinkTake& take : routes_[route]) {
    LinkState& link = links_[take.link];
    if (link.count++ == 0) link.since = now;
    loads_[take.link].streams += take.streams;
    link.use.flows += take.streams;
    if (flow >= kFew) {
      if (link.many.size() > 16 && static_cast<std::int64_t>(link.many.size()) > 2 * link.count)
        forget_ended(link);
      link.many.push_back({flow, flows_[flow].use});
    }
    if (is_full(take.link)) mark(take.link);
  }
  if (flow < kFew) add_few(flow);
  begun_.push_back(flow);
  ++moving_;
  has_changed_ = true;
  return flow;
}

void Flows::pass(std::uint32_t route) {
  for (const LinkTake& take : routes_[route]) links_[take.link].use.flows += take.streams;
}

void Flows::finish(std::uint32_t flow, Nanoseconds now) {
  flows_[flow].moving = false;
  end_of_[flow] = kNoEnd;
  --moving_;
  has_changed_ = true;
  if (flow < kFew) {
    remove_few(flow);
  } else {
    free_.push_back(flow);
  }
  for (const LinkTake& take : routes_[flows_[flow].route]) {
    if (is_full(take.link)) mark(take.link);  // as long as it is
    LinkState& link = links_[take.link];
    loads_[take.link].streams -= take.streams;
    if (--link.count == 0) link.use.busy += now - link.since;
  }
}

void Flows::forget_ended(LinkState& link) const {
  std::erase_if(link.many, [&](const OnLink& on) { return !is_there(on); });
}

/// The full links of a flow: others tie nobody.
void Flows::reach(std::uint32_t flow) {
  flows_[flow].is_neighbour = true;
  neighbours_.push_back(flow);
  for (const LinkTake& take : routes_[flows_[flow].route]) {
    if (loads_[take.link].is_reached || !is_full(take.link)) continue;
    loads_[take.link].is_reached = true;
    reached_.push_back(take.link);
  }
}

template <class F>
void Flows::for_each_on(std::uint32_t link, F f) {
  for_each_of(links_[link].few, f);
  for (const OnLink& on : links_[link].many) f(on.flow);
}

void Flows::find_neighbours() {
  neighbours_.clear();
  for (const std::uint32_t seed : reached_) loads_[seed].is_reached = true;
  for (std::size_t next = 0; next < reached_.size(); ++next) {
    forget_ended(links_[reached_[next]]);
    for_each_on(reached_[next], [&](std::uint32_t flow) {
      if (!flows_[flow].is_neighbour) reach(flow);
    });
  }
}

/// Of the links that have flows without a rate, those with the smallest share, if that is below full speed.
Rate Flows::smallest_share() {
  narrowest_.clear();
  Rate smallest = kFullSpeed;
  for (const std::uint32_t link : reached_) {
    if (loads_[link].open == 0) continue;
    const Rate share = std::max<Rate>(whole_quotient(loads_[link].left, loads_[link].open), 1);
    if (share >= kFullSpeed || share > smallest) continue;
    if (share < smallest) narrowest_.clear();
    smallest = share;
    narrowest_.push_back(link);
  }
  return smallest;
}

/// Gives the flows of the narrowest links their rate. All of these links at once, so that the order in which
/// links are numbered does not matter where shares are rounded.
void Flows::fix(Rate share) {
  fixed_.clear();
  for (const std::uint32_t link : narrowest_) {
    for_each_on(link, [&](std::uint32_t flow) {
      if (rates_[flow] != 0) return;
      rates_[flow] = share;
      fixed_.push_back(flow);
    });
  }
  for (const std::uint32_t flow : fixed_) {
    for (const LinkTake& take : routes_[flows_[flow].route]) {
      LinkLoad& load = loads_[take.link];
      if (!load.is_reached) continue;
      load.left -= share * take.streams;
      load.open -= take.streams;
    }
  }
}

/// Progressive filling.
void Flows::find_rates() {
  for (const std::uint32_t flow : neighbours_) rates_[flow] = 0;
  for (const std::uint32_t link : reached_) {
    loads_[link].left = loads_[link].capacity;
    loads_[link].open = loads_[link].streams;
  }
  for (Rate share = smallest_share(); !narrowest_.empty(); share = smallest_share()) fix(share);
}

/// Whether it ends at another time now.
bool Flows::set_rate(std::uint32_t number, Rate rate, Nanoseconds now) {
  Flow& flow = flows_[number];
  if (flow.rate == rate) return false;
  flow.left = std::max(Parts{0}, flow.left - Parts{now - flow.since} * flow.rate);
  flow.since = now;
  flow.rate = rate;
  if (flow.left == 0) return false;  // it ends at this instant anyway
  end_of_[number] = checked_end(quotient(flow.left + rate - 1, rate), now);
  return true;
}

/// A link holds flows back where some are below full speed and nothing of it is left by all. Shares are
/// rounded down, so a part for each stream may be.
void Flows::count_held(std::uint32_t number, Nanoseconds now) {
  const LinkLoad& load = loads_[number];
  const bool slowed = load.open < load.streams;
  set_held(number, slowed && load.left - load.open * kFullSpeed < load.streams, now);
}

void Flows::change_held(std::uint32_t number, Nanoseconds now) {
  LinkLoad& load = loads_[number];
  LinkState& link = links_[number];
  if (load.holds) link.use.contended += now - link.held_since;
  link.held_since = now;
  load.holds = !load.holds;
}

/// Whether every flow is on the link, and none has a narrower one.
bool Flows::ties_all(std::uint32_t link) {
  if (links_[link].count != moving_ || !is_full(link)) return false;
  const Rate smallest = fair_share(link);
  return std::ranges::none_of(full_, [&](std::uint32_t other) { return fair_share(other) < smallest; });
}

std::optional<std::uint32_t> Flows::tying_link() {
  if (!may_be_tied()) return std::nullopt;
  const auto found = std::ranges::find_if(reached_, [&](std::uint32_t link) { return ties_all(link); });
  return found == reached_.end() ? std::nullopt : std::optional(*found);
}

/// Flows that were there before come onto the clock.
void Flows::tie(std::uint32_t link, Nanoseconds now) {
  tie_ = link;
  clock_.start(now);
  levels_.clear();
  forget_ended(links_[link]);
  for_each_on(link, [&](std::uint32_t number) {
    Flow& flow = flows_[number];
    if (flow.rate == 0) return;  // it begins now
    clock_.add({number, flow.use}, std::max(Parts{0}, flow.left - Parts{now - flow.since} * flow.rate));
    flow.rate = 0;
    end_of_[number] = kNoEnd;
  });
}

/// Each flow has again what it has left, and all of them need a rate.
void Flows::untie(Nanoseconds now) {
  clock_.go_on(now, clock_.rate());
  clock_.each([&](const FairClock::Flow& tied, Parts left) {
    if (!is_there({tied.number, tied.use})) return;
    Flow& flow = flows_[tied.number];
    flow.left = std::max(Parts{0}, left);
    flow.since = now;
    end_of_[tied.number] = kNoEnd;
  });
  if (!loads_[*tie_].is_seed) {
    loads_[*tie_].is_seed = true;
    reached_.push_back(*tie_);
  }
  tie_.reset();
}

/// Of all ends the next ones alone: before the others come, rates change.
void Flows::find_next_tied(Nanoseconds now) {
  for (const std::uint32_t flow : next_flows_) end_of_[flow] = kNoEnd;
  next_flows_.clear();
  const Parts wait = clock_.wait();
  next_end_ = checked_end(wait, now);
  clock_.within(wait, [&](const FairClock::Flow& tied) {
    end_of_[tied.number] = next_end_;
    next_flows_.push_back(tied.number);
  });
}

void Flows::settle_tied(std::uint32_t link, Nanoseconds now) {
  if (!tie_) tie(link, now);
  clock_.go_on(now, fair_share(link));
  clock_.drop([&](const FairClock::Flow& tied) { return !is_there({tied.number, tied.use}); });
  for (const std::uint32_t flow : begun_) clock_.add({flow, flows_[flow].use}, flows_[flow].left);
  for (const std::uint32_t seed : reached_) loads_[seed].is_seed = false;
  for (const std::uint32_t other : full_) set_held(other, fair_share(other) == clock_.rate(), now);
  find_next_tied(now);
}

/// Whether it is full; if not, it is forgotten, and holds nobody back.
bool Flows::keep_full(std::uint32_t link, Nanoseconds now) {
  if (is_full(link)) return true;
  loads_[link].is_listed = false;
  set_held(link, false, now);
  return false;
}

void Flows::forget_wide_links(Nanoseconds now) {
  std::erase_if(full_, [&](std::uint32_t link) { return !keep_full(link, now); });
}

void Flows::find_many(Nanoseconds now) {
  if (!reached_.empty()) {
    find_neighbours();
    find_rates();
    for (const std::uint32_t flow : neighbours_) {
      flows_[flow].is_neighbour = false;
      if (set_rate(flow, rates_[flow] == 0 ? kFullSpeed : rates_[flow], now))
        ends_.push_back({flow, end_of_[flow]});
    }
    for (const std::uint32_t link : reached_) {
      count_held(link, now);
      loads_[link].is_seed = loads_[link].is_reached = false;
    }
  }
  for (const std::uint32_t flow : begun_) {
    if (flows_[flow].rate == 0 && set_rate(flow, kFullSpeed, now)) ends_.push_back({flow, end_of_[flow]});
  }
}

void Flows::settle_many(bool may_tie, Nanoseconds now) {
  forget_wide_links(now);
  if (const auto link = may_tie ? tying_link() : std::nullopt) return settle_tied(*link, now);
  if (std::exchange(next_alone_, false)) tell_few();
  next_end_ = std::numeric_limits<Nanoseconds>::max();
  next_flows_.clear();
  levels_.clear();
  find_many(now);
}

/// Whether there is a tie, and it ties all flows that there are now. If not, there is none any more.
bool Flows::stays_tied(Nanoseconds now) {
  if (!tie_) return false;
  forget_wide_links(now);
  if (ties_all(*tie_)) return true;
  untie(now);
  return false;
}

const std::vector<Flows::End>& Flows::settle_untold(Nanoseconds now) {
  ends_.clear();
  if (!std::exchange(has_changed_, false)) return ends_;
  const bool may_tie = !tie_;
  if (stays_tied(now)) {
    settle_tied(*tie_, now);
  } else if (has_many()) {
    settle_many(may_tie, now);
  } else {
    settle_few(may_tie, now);
  }
  reached_.clear();
  begun_.clear();
  return ends_;
}

const std::vector<Flows::End>& Flows::settle(Nanoseconds now) {
  settle_untold(now);
  for (const std::uint32_t flow : next_flows_) tell(flow);
  return ends_;
}

std::vector<LinkUse> Flows::uses() const {
  std::vector<LinkUse> uses;
  for (const LinkState& link : links_) uses.push_back(link.use);
  return uses;
}

}  // namespace ppsim::simulator
