// The part of Flows for few flows at once, whose numbers are members of sets that fit a word.

#include <algorithm>
#include <bit>
#include <limits>

#include "flow_sets.hpp"
#include "flows.hpp"

namespace ppsim::simulator {

void Flows::add_few(std::uint32_t flow) {
  few_ |= bit_of(flow);
  wide_ &= ~bit_of(flow);
  for (const LinkTake& take : routes_[flows_[flow].route]) {
    links_[take.link].few |= bit_of(flow);
    if (take.streams > 1) wide_ |= bit_of(flow);
  }
}

void Flows::remove_few(std::uint32_t flow) {
  few_ &= ~bit_of(flow);
  for (const LinkTake& take : routes_[flows_[flow].route]) links_[take.link].few &= ~bit_of(flow);
}

void Flows::tell(std::uint32_t number) {
  Flow& flow = flows_[number];
  if (flow.told == end_of_[number]) return;
  flow.told = end_of_[number];
  ends_.push_back({number, flow.told});
}

/// Every end that is known and was not told.
void Flows::tell_few() {
  for_each_of(few_, [&](std::uint32_t flow) {
    if (flows_[flow].rate != 0) tell(flow);
  });
}

/// How many streams some of its flows have on a link.
std::uint32_t Flows::streams_on(std::uint32_t link, std::uint64_t flows) const {
  std::uint32_t streams = size_of(flows & ~wide_);
  for_each_of(flows & wide_, [&](std::uint32_t flow) {
    streams += std::ranges::find(routes_[flows_[flow].route], link, &LinkTake::link)->streams;
  });
  return streams;
}

/// Numbers may have been taken again since rates were found.
void Flows::forget_levels_of_begun() {
  std::uint64_t begun = 0;
  for (const std::uint32_t flow : begun_) begun |= bit_of(flow);
  for (Level& level : levels_) level.flows &= ~begun;
}

/// Gives flows their rate. Those that had it already are not looked at.
void Flows::set_rates(std::uint64_t flows, Rate rate, Nanoseconds now) {
  levels_.push_back({rate, flows});
  for (const Level& level : last_levels_)
    if (level.rate == rate) flows &= ~level.flows;
  for_each_of(flows, [&](std::uint32_t flow) { set_rate(flow, rate, now); });
}

/// Begins to fill the full links.
Flows::Narrowest Flows::look_at_full_links(Nanoseconds now) {
  Narrowest narrowest;
  filling_.resize(links_.size());
  std::size_t kept = 0;
  for (const std::uint32_t link : full_) {
    if (!keep_full(link, now)) continue;
    const LinkLoad& load = loads_[link];
    Filling& filling = filling_[kept];
    filling = {link, load.streams, links_[link].few, load.capacity, fair_share(link)};
    narrowest.add(filling);
    full_[kept++] = link;
  }
  full_.resize(kept);
  open_links_ = kept;
  return narrowest;
}

/// Takes from the links what flows have that got their rate, the share of the narrowest links. Those are the
/// narrowest then that have flows without a rate.
Flows::Narrowest Flows::take(std::uint64_t flows, Rate share, Nanoseconds now) {
  Narrowest narrowest;
  std::size_t kept = 0;
  for (std::size_t i = 0; i < open_links_; ++i) {
    Filling filling = filling_[i];
    if (filling.share == share) {  // all of its flows have a rate, and all that is left is shared
      set_held(filling.link, true, now);
      continue;
    }
    if (const std::uint64_t on = filling.flows & flows; on != 0) {
      const std::uint32_t streams = (on & wide_) == 0 ? size_of(on) : streams_on(filling.link, on);
      filling.left -= share * streams;
      filling.open -= streams;
      if (filling.open == 0) {
        set_held(filling.link, filling.left < loads_[filling.link].streams, now);
        continue;
      }
      filling.share = std::max<Rate>(whole_quotient(filling.left, filling.open), 1);
    }
    narrowest.add(filling);
    filling_[kept++] = filling;
  }
  open_links_ = kept;
  return narrowest;
}

/// Progressive filling of all full links, with the sets of the flows on each.
void Flows::fill_few(Narrowest narrowest, Nanoseconds now) {
  std::swap(levels_, last_levels_);
  levels_.clear();
  std::uint64_t open = few_;
  while (narrowest.share != kFullSpeed) {
    const std::uint64_t fixed = narrowest.flows & open;
    set_rates(fixed, narrowest.share, now);
    open &= ~fixed;
    narrowest = take(fixed, narrowest.share, now);
  }
  if (open != 0) set_rates(open, kFullSpeed, now);
  for (const Filling& filling : std::span(filling_).first(open_links_)) {
    loads_[filling.link].left = filling.left;
    loads_[filling.link].open = filling.open;
    count_held(filling.link, now);
  }
}

/// Of all ends the next ones alone: when they come, the others are asked for again.
void Flows::find_next_few() {
  const auto numbers = static_cast<std::uint32_t>(std::bit_width(few_));
  static_assert(static_cast<std::uint64_t>(kNoEnd) == UINT64_MAX);
  auto next = static_cast<std::uint64_t>(std::numeric_limits<Nanoseconds>::max());
  std::uint32_t first = 0;
  const Nanoseconds* const ends = end_of_.data();
  for (std::uint32_t flow = 0; flow < numbers; ++flow) {
    const auto end = static_cast<std::uint64_t>(ends[flow]);
    first = end < next ? flow : first;
    next = std::min(next, end);
  }
  next_end_ = static_cast<Nanoseconds>(next);
  next_flows_.clear();
  for (std::uint32_t flow = first; flow < numbers; ++flow)
    if (static_cast<std::uint64_t>(ends[flow]) == next) next_flows_.push_back(flow);
}

/// The one link that all flows are on, and none has a narrower one.
std::optional<std::uint32_t> Flows::tying_few(const Narrowest& narrowest) const {
  if (narrowest.flows != few_ || !may_be_tied()) return std::nullopt;
  for (const Filling& filling : std::span(filling_).first(open_links_))
    if (filling.share == narrowest.share && filling.flows == few_) return filling.link;
  return std::nullopt;
}

void Flows::settle_few(bool may_tie, Nanoseconds now) {
  forget_levels_of_begun();
  if (reached_.empty()) {
    for (const std::uint32_t flow : begun_) set_rate(flow, kFullSpeed, now);
  } else {
    const Narrowest narrowest = look_at_full_links(now);
    if (const auto link = may_tie ? tying_few(narrowest) : std::nullopt) return settle_tied(*link, now);
    fill_few(narrowest, now);
    for (const std::uint32_t seed : reached_) loads_[seed].is_seed = false;
  }
  next_alone_ = true;
  find_next_few();
}

}  // namespace ppsim::simulator
