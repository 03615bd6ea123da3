#include "flows.hpp"

#include <algorithm>
#include <limits>

#include "engine/clock.hpp"
#include "ppsim/core/ir/check.hpp"
#include "ppsim/core/ir/overflow.hpp"

namespace ppsim::simulator {

namespace {

__extension__ using WideRest = __int128;

/// The remaining wait, as far as times have room for it.
Nanoseconds checked_rest(WideRest rest, Nanoseconds now) {
  if (rest + now > std::numeric_limits<Nanoseconds>::max()) throw Overflow("a step with shared links");
  return static_cast<Nanoseconds>(rest);
}

}  // namespace

Flows::Flows(const SharedLinks& links)
    : links_(links),
      shares_(links.links),
      states_(links.taken.size()),
      on_link_(links.links.size()),
      counted_(links.links.size(), 0),
      uses_(links.links.size()),
      is_reached_(links.links.size(), 0),
      is_neighbour_(links.taken.size(), 0) {}

/// The flows in flight that are tied to this one by links, over any number of others.
void Flows::find_neighbours(std::uint32_t flow) {
  neighbours_.clear();
  reached_.clear();
  const auto reach = [&](std::uint32_t of) {
    for (const std::uint32_t link : links_.taken[of]) {
      if (is_reached_[link] == 0) reached_.push_back(link);
      is_reached_[link] = 1;
    }
  };
  reach(flow);
  for (std::size_t next = 0; next < reached_.size(); ++next) {
    for (const std::uint32_t other : on_link_[reached_[next]]) {
      if (is_neighbour_[other] == 0) neighbours_.push_back(other), reach(other);
      is_neighbour_[other] = 1;
    }
  }
  for (const std::uint32_t link : reached_) is_reached_[link] = 0;
  for (const std::uint32_t other : neighbours_) is_neighbour_[other] = 0;
  std::sort(neighbours_.begin(), neighbours_.end());
}

void Flows::move_on(State& state, Nanoseconds now) const {
  state.left = std::max(Parts{0}, state.left - Parts{now - state.since} * state.rate);
  state.since = now;
}

bool Flows::is_contended(std::uint32_t link) const {
  Rate sum = 0;
  bool slowed = false;
  for (const std::uint32_t flow : on_link_[link]) {
    sum += states_[flow].rate;
    slowed = slowed || states_[flow].rate < kFullSpeed;
  }
  // Shares are rounded down, so some parts may be left.
  return slowed && sum + static_cast<Rate>(on_link_[link].size()) > links_.links[link].capacity;
}

/// Of the links that find_neighbours has reached, up to now.
void Flows::count_use(Nanoseconds now) {
  for (const std::uint32_t link : reached_) {
    const Nanoseconds passed = now - counted_[link];
    counted_[link] = now;
    if (on_link_[link].empty() || passed == 0) continue;
    uses_[link].busy += passed;
    if (is_contended(link)) uses_[link].contended += passed;
  }
}

/// Gives the neighbours their rates.
void Flows::share(Instant now) {
  ends_.clear();
  const std::vector<Rate>& rates = shares_.of(neighbours_, links_.taken);
  for (std::size_t i = 0; i < neighbours_.size(); ++i) {
    State& state = states_[neighbours_[i]];
    if (state.rate == rates[i]) continue;
    move_on(state, now.time);
    state.rate = rates[i];
    if (state.left == 0) continue;  // it ends at this instant anyway
    state.end = completion(now, checked_rest((state.left + rates[i] - 1) / rates[i], now.time));
    ends_.push_back({neighbours_[i], state.end});
  }
}

const std::vector<Flows::End>& Flows::begin(std::uint32_t flow, Nanoseconds cost, Instant now) {
  PPSIM_CHECK(cost > 0 && shares(flow), "a flow that takes time on a link");
  find_neighbours(flow);
  count_use(now.time);
  states_[flow] = {.left = Parts{cost} * kFullSpeed, .since = now.time, .moving = true};
  for (const std::uint32_t link : links_.taken[flow]) {
    on_link_[link].push_back(flow);
    ++uses_[link].flows;
  }
  neighbours_.insert(std::upper_bound(neighbours_.begin(), neighbours_.end(), flow), flow);
  share(now);
  return ends_;
}

bool Flows::ends(std::uint32_t flow, Instant now) const {
  return states_[flow].moving && states_[flow].end == now;
}

const std::vector<Flows::End>& Flows::finish(std::uint32_t flow, Instant now) {
  find_neighbours(flow);
  count_use(now.time);
  states_[flow].moving = false;
  for (const std::uint32_t link : links_.taken[flow]) std::erase(on_link_[link], flow);
  std::erase(neighbours_, flow);
  share(now);
  return ends_;
}

}  // namespace ppsim::simulator
