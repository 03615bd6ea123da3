// Flows against a slow and simple model of them: at every instant it gives all flows new rates, by
// progressive filling over all links, and treats every flow alone. Ends and uses are the same, to the
// nanosecond, for few flows, many, those that one link ties, and from each of these to the others.

#include "effects/flows.hpp"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace ppsim::test::flows_test {
namespace {

using simulator::Flows;
using simulator::kFullSpeed;
using simulator::Rate;
using simulator::Routes;
using simulator::whole_quotient;

struct Arrival {
  Nanoseconds at;
  std::uint32_t route;
  Nanoseconds cost;
};

struct Traffic {
  std::vector<Link> links;
  std::vector<std::vector<LinkTake>> routes;
  std::vector<Arrival> arrivals;  ///< ascending
};

/// The end of each arrival, and the use of each link.
struct Outcome {
  std::vector<Nanoseconds> ends;
  std::vector<LinkUse> uses;
};

class PlainFlows {
 public:
  explicit PlainFlows(const Traffic& traffic)
      : traffic_(traffic), outcome_{std::vector<Nanoseconds>(traffic.arrivals.size(), -1), {}} {
    outcome_.uses.resize(traffic.links.size());
    holds_.resize(traffic.links.size());
  }

  Outcome run() {
    std::size_t arrived = 0;
    Nanoseconds now = 0;
    while (arrived < traffic_.arrivals.size() || !moving_.empty()) {
      Nanoseconds next = std::numeric_limits<Nanoseconds>::max();
      if (arrived < traffic_.arrivals.size()) next = traffic_.arrivals[arrived].at;
      for (const Moving& flow : moving_) next = std::min(next, now + rest(flow));
      advance(next - now);
      std::erase_if(moving_, [&](const Moving& flow) {
        if (flow.left > 0) return false;
        outcome_.ends[flow.number] = next;
        return true;
      });
      for (; arrived < traffic_.arrivals.size() && traffic_.arrivals[arrived].at == next; ++arrived)
        moving_.push_back({arrived, Parts{traffic_.arrivals[arrived].cost} * kFullSpeed, 0});
      for (const LinkTake& take : begun(arrived, next)) outcome_.uses[take.link].flows += take.streams;
      now = next;
      fill();
    }
    return outcome_;
  }

 private:
  __extension__ using Parts = __int128;
  struct Moving {
    std::size_t number;
    Parts left;
    Rate rate;
  };

  static Nanoseconds rest(const Moving& flow) {
    return static_cast<Nanoseconds>((flow.left + flow.rate - 1) / flow.rate);
  }
  [[nodiscard]] const std::vector<LinkTake>& route(const Moving& flow) const {
    return traffic_.routes[traffic_.arrivals[flow.number].route];
  }
  /// The shares of the flows that have arrived at `now`.
  [[nodiscard]] std::vector<LinkTake> begun(std::size_t arrived, Nanoseconds now) const {
    std::vector<LinkTake> takes;
    for (; arrived > 0 && traffic_.arrivals[arrived - 1].at == now; --arrived)
      for (const LinkTake& take : traffic_.routes[traffic_.arrivals[arrived - 1].route])
        takes.push_back(take);
    return takes;
  }
  /// The streams on a link of the flows without a rate, or of all flows.
  [[nodiscard]] std::int64_t streams(std::uint32_t link, bool all) const {
    std::int64_t sum = 0;
    for (const Moving& flow : moving_)
      for (const LinkTake& take : route(flow))
        if (take.link == link && (all || flow.rate == 0)) sum += take.streams;
    return sum;
  }
  /// The capacity of the link that no flow with a rate uses.
  [[nodiscard]] Rate left(std::uint32_t link) const {
    Rate rest = traffic_.links[link].capacity;
    for (const Moving& flow : moving_)
      for (const LinkTake& take : route(flow))
        if (take.link == link) rest -= flow.rate * take.streams;
    return rest;
  }

  void advance(Nanoseconds time) {
    for (Moving& flow : moving_) flow.left -= Parts{time} * flow.rate;
    for (std::uint32_t link = 0; link < holds_.size(); ++link) {
      if (streams(link, true) > 0) outcome_.uses[link].busy += time;
      if (holds_[link]) outcome_.uses[link].contended += time;
    }
  }

  void fill() {
    for (Moving& flow : moving_) flow.rate = 0;
    while (true) {
      std::vector<Rate> shares(holds_.size(), kFullSpeed);
      for (std::uint32_t link = 0; link < holds_.size(); ++link) {
        const std::int64_t open = streams(link, false);
        if (open > 0) shares[link] = std::max<Rate>(left(link) / open, 1);
      }
      const Rate smallest = *std::ranges::min_element(shares);
      if (smallest >= kFullSpeed) break;
      std::vector<Moving*> fixed;
      for (Moving& flow : moving_) {
        const bool narrow = std::ranges::any_of(
            route(flow), [&](const LinkTake& take) { return shares[take.link] == smallest; });
        if (flow.rate == 0 && narrow) fixed.push_back(&flow);
      }
      for (Moving* flow : fixed) flow->rate = smallest;
    }
    for (std::uint32_t link = 0; link < holds_.size(); ++link) {
      const std::int64_t open = streams(link, false);
      const std::int64_t all = streams(link, true);
      holds_[link] = open < all && left(link) - open * kFullSpeed < all;
    }
    for (Moving& flow : moving_)
      if (flow.rate == 0) flow.rate = kFullSpeed;
  }

  const Traffic& traffic_;
  Outcome outcome_;
  std::vector<Moving> moving_;
  std::vector<bool> holds_;
};

/// Who is told the next ends, and who asks for them.
enum class Ends { told, asked };

Outcome run(const Traffic& traffic, Ends ends) {
  Routes routes;
  for (const auto& route : traffic.routes) routes.add(route);
  Flows flows(routes, traffic.links);
  Outcome outcome{std::vector<Nanoseconds>(traffic.arrivals.size(), -1), {}};
  std::map<std::uint32_t, std::size_t> arrivals;  // by the numbers of their flows
  std::multimap<Nanoseconds, std::uint32_t> told;
  std::size_t arrived = 0;
  const auto finish = [&](std::uint32_t flow, Nanoseconds now) {
    if (!flows.ends(flow, now)) return;
    flows.finish(flow, now);
    outcome.ends[arrivals.at(flow)] = now;
  };
  const auto knows_end = [&] {
    return !told.empty() || (ends == Ends::asked && !flows.next_flows().empty());
  };
  while (arrived < traffic.arrivals.size() || knows_end()) {
    Nanoseconds now = ends == Ends::asked ? flows.next_end() : std::numeric_limits<Nanoseconds>::max();
    if (arrived < traffic.arrivals.size()) now = std::min(now, traffic.arrivals[arrived].at);
    if (!told.empty()) now = std::min(now, told.begin()->first);
    for (; !told.empty() && told.begin()->first == now; told.erase(told.begin()))
      finish(told.begin()->second, now);
    if (ends == Ends::asked && now == flows.next_end())
      for (const std::uint32_t flow : flows.next_flows()) finish(flow, now);
    for (; arrived < traffic.arrivals.size() && traffic.arrivals[arrived].at == now; ++arrived)
      arrivals[flows.begin(traffic.arrivals[arrived].route, traffic.arrivals[arrived].cost, now)] = arrived;
    const auto& changed = ends == Ends::told ? flows.settle(now) : flows.settle_untold(now);
    for (const Flows::End& end : changed) told.emplace(end.at, end.flow);
  }
  outcome.uses = flows.uses();
  return outcome;
}

/// Draws random traffic: now few flows at once, now more than a hundred.
class Draw {
 public:
  explicit Draw(unsigned seed) : random_(seed) {}

  /// Some links have room for everybody.
  Traffic over_any_links() {
    Traffic traffic;
    const int links = number(2, 12);
    for (int l = 0; l < links; ++l)
      traffic.links.push_back({"", number(1, 4) == 1 ? 500 * kFullSpeed : capacity(12)});
    for (int r = number(2, 30); r > 0; --r) {
      auto& takes = traffic.routes.emplace_back();
      for (int l = 0; l < links; ++l)
        if (number(0, links - 1) < 2) takes.push_back({static_cast<std::uint32_t>(l), streams()});
      if (takes.empty()) takes.push_back({0});
    }
    add_arrivals(traffic);
    return traffic;
  }

  /// Messages from node to node through a core.
  Traffic through_core() {
    Traffic traffic{{{"core", capacity(20)}}, {}, {}};
    const int nodes = number(2, 6);
    const Rate nic = number(1, 2) == 1 ? kFullSpeed : capacity(12);
    traffic.links.resize(static_cast<std::size_t>(2 * nodes + 1), {"", nic});
    for (int r = number(4, 60); r > 0; --r) {
      const auto from = static_cast<std::uint32_t>(number(1, nodes));
      const auto to = static_cast<std::uint32_t>(nodes + number(1, nodes));
      traffic.routes.push_back({{0, streams()}, {from}, {to}});
    }
    add_arrivals(traffic);
    return traffic;
  }

 private:
  int number(int first, int last) { return std::uniform_int_distribution<int>(first, last)(random_); }
  Rate capacity(int most) { return kFullSpeed / number(1, 12) * number(1, most); }
  std::uint32_t streams() { return number(0, 9) == 0 ? static_cast<std::uint32_t>(number(2, 4)) : 1; }

  void add_arrivals(Traffic& traffic) {
    Nanoseconds at = 0;
    const int apart = number(1, 400);
    const Nanoseconds longest = number(1, 8) == 1 ? 30'000'000'000 : 2000;
    for (int phase = number(1, 4); phase > 0; --phase) {
      for (int i = number(1, 3) == 1 ? number(60, 120) : number(1, 40); i > 0; --i) {
        at += number(0, 2) == 0 ? 0 : number(0, apart);
        const int route = number(1, static_cast<int>(traffic.routes.size())) - 1;
        traffic.arrivals.push_back({at, static_cast<std::uint32_t>(route), longest * number(1, 99) / 66 + 1});
      }
      at += number(0, 20000);
    }
  }

  std::mt19937 random_;
};

void expect_same(const Traffic& traffic) {
  const Outcome plain = PlainFlows(traffic).run();
  for (const Ends ends : {Ends::told, Ends::asked}) {
    SCOPED_TRACE(ends == Ends::told ? "told" : "asked");
    const Outcome found = run(traffic, ends);
    ASSERT_EQ(found.ends, plain.ends);
    ASSERT_EQ(found.uses, plain.uses);
  }
}

TEST(Flows, OverAnyLinksTakeAsLongAsInThePlainModel) {
  for (unsigned seed = 0; seed < 150; ++seed) {
    SCOPED_TRACE(seed);
    ASSERT_NO_FATAL_FAILURE(expect_same(Draw(seed).over_any_links()));
  }
}

TEST(Flows, ThroughACoreTakeAsLongAsInThePlainModel) {
  for (unsigned seed = 0; seed < 150; ++seed) {
    SCOPED_TRACE(seed);
    ASSERT_NO_FATAL_FAILURE(expect_same(Draw(seed).through_core()));
  }
}

/// Also where the quotient is next to a whole number, and where doubles are not exact any more.
TEST(WholeQuotient, IsThatOfIntegers) {
  constexpr std::int64_t kLimit = std::int64_t{1} << 53;
  for (const std::int64_t divisor : {std::int64_t{1}, std::int64_t{3}, std::int64_t{7}, std::int64_t{64},
                                     kFullSpeed, kFullSpeed - 1, kLimit - 1}) {
    for (const std::int64_t near : {std::int64_t{0}, std::int64_t{12}, kFullSpeed, kLimit, 4 * kLimit}) {
      for (std::int64_t off = -2; off <= 2; ++off) {
        const std::int64_t dividend = near / divisor * divisor + off;
        if (dividend < 0) continue;
        EXPECT_EQ(whole_quotient(dividend, divisor), dividend / divisor) << dividend;
      }
    }
  }
}

}  // namespace
}  // namespace ppsim::test::flows_test
