#include "closure.hpp"

#include <algorithm>
#include <deque>

#include "max_flow.hpp"
#include "ppsim/core/ir/check.hpp"

namespace ppsim::verifier {
namespace {

/// Tensors that are born, or that die, together.
struct Group {
  Clock clock;
  Bytes bytes = 0;
  std::vector<std::uint32_t> members;  ///< indexes into the lifetimes
};

Clock relaxed_birth(const Lifetime& lifetime) {
  Clock common = lifetime.births.front().after;
  for (const Birth& birth : lifetime.births) {
    std::ranges::transform(common, birth.after, common.begin(),
                           [](auto a, auto b) { return std::min(a, b); });
  }
  return common;
}

Clock relaxed_death(const Lifetime& lifetime) {
  Clock all = lifetime.deaths.front();
  for (const Clock& death : lifetime.deaths) merge_clock(all, death);
  return all;
}

/// Groups tensors by equal clocks, in lexicographic order.
std::vector<Group> group(std::vector<std::pair<Clock, std::uint32_t>> keyed,
                         const std::vector<Lifetime>& lifetimes) {
  std::ranges::sort(keyed);
  std::vector<Group> groups;
  for (auto& [clock, index] : keyed) {
    if (groups.empty() || groups.back().clock != clock) groups.push_back({std::move(clock), 0, {}});
    groups.back().bytes = checked_add(groups.back().bytes, lifetimes[index].bytes);
    groups.back().members.push_back(index);
  }
  return groups;
}

/// Deaths of which each implies the one before it, so that a birth which follows one follows all before it.
using Chain = std::vector<std::uint32_t>;

std::vector<Chain> chains_of(const std::vector<Group>& deaths, const Limits& limits) {
  std::vector<Chain> chains;
  for (std::uint32_t d = 0; d < deaths.size(); ++d) {
    limits.poll();
    const auto fits = [&](const Chain& chain) {
      return is_within(deaths[chain.back()].clock, deaths[d].clock);
    };
    const auto chain = std::ranges::find_if(chains, fits);
    if (chain != chains.end()) {
      chain->push_back(d);
    } else {
      chains.push_back({d});
    }
  }
  return chains;
}

class ClosureProblem {
 public:
  ClosureProblem(const std::vector<Lifetime>& lifetimes, std::size_t tracks, const Limits& limits)
      : lifetimes_(lifetimes), tracks_(tracks), limits_(limits) {
    std::vector<std::pair<Clock, std::uint32_t>> births;
    std::vector<std::pair<Clock, std::uint32_t>> deaths;
    for (std::uint32_t i = 0; i < lifetimes.size(); ++i) {
      births.emplace_back(relaxed_birth(lifetimes[i]), i);
      if (!lifetimes[i].deaths.empty()) deaths.emplace_back(relaxed_death(lifetimes[i]), i);
      total_ = checked_add(total_, lifetimes[i].bytes);
    }
    births_ = group(std::move(births), lifetimes);
    deaths_ = group(std::move(deaths), lifetimes);
    chains_ = chains_of(deaths_, limits);
  }

  Closure solve() {
    add_arcs();
    flow_ = max_flow(2 + births_.size() + deaths_.size(), arcs_, limits_);
    Closure closure;
    closure.bytes = total_ - flow_.value;
    closure.moment.assign(tracks_, 0);
    for (std::uint32_t b = 0; b < births_.size(); ++b) {
      if (flow_.source_side[birth_node(b)] != 0) merge_clock(closure.moment, births_[b].clock);
    }
    mark_counted(closure);
    split_flow(closure.reuse);
    return closure;
  }

 private:
  /// A birth that follows the deaths of `chain` up to position `last`, and the arc for it.
  struct Link {
    std::uint32_t birth;
    std::uint32_t last;
    std::size_t arc;
  };

  [[nodiscard]] static std::uint32_t birth_node(std::uint32_t birth) { return 2 + birth; }
  [[nodiscard]] std::uint32_t death_node(std::uint32_t death) const {
    return 2 + static_cast<std::uint32_t>(births_.size()) + death;
  }

  void mark_counted(Closure& closure) const {
    closure.counted.assign(lifetimes_.size(), 0);
    for (std::uint32_t b = 0; b < births_.size(); ++b) {
      if (flow_.source_side[birth_node(b)] == 0) continue;
      for (const std::uint32_t i : births_[b].members) closure.counted[i] = 1;
    }
    for (std::uint32_t d = 0; d < deaths_.size(); ++d) {
      if (flow_.source_side[death_node(d)] == 0) continue;
      for (const std::uint32_t i : deaths_[d].members) closure.counted[i] = 0;
    }
  }

  void add_arcs() {
    for (std::uint32_t b = 0; b < births_.size(); ++b) arcs_.push_back({0, birth_node(b), births_[b].bytes});
    for (std::uint32_t d = 0; d < deaths_.size(); ++d) arcs_.push_back({death_node(d), 1, deaths_[d].bytes});
    for (const Chain& chain : chains_) {
      limits_.poll();
      limits_.need(arcs_.size() + chain.size() + births_.size(), sizeof(Arc) + sizeof(Link));
      for (std::size_t i = 1; i < chain.size(); ++i) {
        arcs_.push_back({death_node(chain[i]), death_node(chain[i - 1]), total_});
      }
      links_.emplace_back();
      for (std::uint32_t b = 0; b < births_.size(); ++b) add_link(chain, b);
    }
  }

  void add_link(const Chain& chain, std::uint32_t birth) {
    const auto end = std::ranges::partition_point(
        chain, [&](std::uint32_t d) { return is_within(deaths_[d].clock, births_[birth].clock); });
    if (end == chain.begin()) return;
    const auto last = static_cast<std::uint32_t>(end - chain.begin() - 1);
    links_.back().push_back({birth, last, arcs_.size()});
    arcs_.push_back({birth_node(birth), death_node(chain[last]), total_});
  }

  /// Takes the flow apart into bytes that one tensor hands on to another. Along a chain every path is as good
  /// as any other, so what entered it highest is used up first.
  void split_flow(std::vector<Reuse>& reuse) {
    open_births_.assign(births_.size(), {});
    open_deaths_.assign(deaths_.size(), {});
    for (std::size_t c = 0; c < chains_.size(); ++c) {
      std::vector<Link>& links = links_[c];
      std::ranges::stable_sort(links, std::ranges::greater(), &Link::last);
      std::size_t next = 0;
      std::deque<std::pair<std::uint32_t, Bytes>> entered;
      for (std::size_t i = chains_[c].size(); i-- > 0;) {
        for (; next < links.size() && links[next].last == i; ++next) {
          if (const Bytes bytes = flow_.flow[links[next].arc]; bytes > 0)
            entered.emplace_back(links[next].birth, bytes);
        }
        const std::uint32_t death = chains_[c][i];
        Bytes absorbed = flow_.flow[births_.size() + death];
        while (absorbed > 0) {
          PPSIM_CHECK(!entered.empty(), "flow is conserved along a chain");
          const Bytes part = std::min(absorbed, entered.front().second);
          hand_on(death, entered.front().first, part, reuse);
          absorbed -= part;
          if ((entered.front().second -= part) == 0) entered.pop_front();
        }
      }
    }
  }

  /// How much of a group's tensors, taken one after the other, is spoken for.
  struct Open {
    std::size_t member = 0;
    Bytes used = 0;
  };

  void hand_on(std::uint32_t death, std::uint32_t birth, Bytes bytes, std::vector<Reuse>& reuse) {
    while (bytes > 0) {
      const Lifetime& earlier = next_open(deaths_[death], open_deaths_[death]);
      const Lifetime& later = next_open(births_[birth], open_births_[birth]);
      const Bytes part =
          std::min({bytes, earlier.bytes - open_deaths_[death].used, later.bytes - open_births_[birth].used});
      reuse.push_back({earlier.tensor, later.tensor, part});
      open_deaths_[death].used += part;
      open_births_[birth].used += part;
      bytes -= part;
    }
  }

  const Lifetime& next_open(const Group& group, Open& open) {
    while (lifetimes_[group.members[open.member]].bytes == open.used) open = {open.member + 1, 0};
    return lifetimes_[group.members[open.member]];
  }

  const std::vector<Lifetime>& lifetimes_;
  std::size_t tracks_;
  const Limits& limits_;
  Bytes total_ = 0;
  std::vector<Group> births_;
  std::vector<Group> deaths_;
  std::vector<Chain> chains_;
  std::vector<Arc> arcs_;                 ///< of births, of deaths, then along and into the chains
  std::vector<std::vector<Link>> links_;  ///< per chain
  MaxFlow flow_;
  std::vector<Open> open_births_;
  std::vector<Open> open_deaths_;
};

}  // namespace

Closure heaviest_closure(const std::vector<Lifetime>& lifetimes, std::size_t tracks, const Limits& limits) {
  return ClosureProblem(lifetimes, tracks, limits).solve();
}

}  // namespace ppsim::verifier
