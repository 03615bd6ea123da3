// Transfers that share links: fair rates by their definition, closed forms of two and three flows, and runs
// that are the same as without links where nothing is shared.

#include "ppsim/simulator/effects/shared_links.hpp"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <numeric>
#include <optional>

#include "ppsim/core/ir/replicas.hpp"
#include "ppsim/core/ir/transports.hpp"
#include "ppsim/core/lowering/lowering.hpp"
#include "ppsim/schedules/registry.hpp"
#include "support/random_program.hpp"
#include "support/random_schedule.hpp"

namespace ppsim {
namespace {

using simulator::fair_rates;
using simulator::kFullSpeed;
using simulator::Rate;

struct Traffic {
  std::vector<Link> links;
  std::vector<std::vector<LinkTake>> flows;
};

Traffic draw_traffic() {
  Traffic traffic;
  const int links = *rc::gen::inRange(1, 6);
  for (int l = 0; l < links; ++l)
    traffic.links.push_back({"", kFullSpeed / 12 * *rc::gen::inRange<Rate>(1, 37)});
  for (int f = *rc::gen::inRange(1, 9); f > 0; --f) {
    std::vector<LinkTake> taken;
    for (int l = 0; l < links; ++l) {
      if (*rc::gen::inRange(0, 3) == 0)
        taken.push_back({static_cast<std::uint32_t>(l), *rc::gen::element(1U, 1U, 1U, 2U, 5U)});
    }
    traffic.flows.push_back(std::move(taken));
  }
  return traffic;
}

Rate load(const Traffic& traffic, const std::vector<Rate>& rates, std::uint32_t link) {
  Rate sum = 0;
  for (std::size_t f = 0; f < rates.size(); ++f)
    for (const LinkTake& take : traffic.flows[f])
      if (take.link == link) sum += take.streams * rates[f];
  return sum;
}

/// A rate is fair if it is full speed, or if one of its links is full and nobody on that has more.
RC_GTEST_PROP(FairRatesProperty, NoLinkIsOverfullAndNoFlowCouldHaveMore, ()) {
  const Traffic traffic = draw_traffic();
  const std::vector<Rate> rates = fair_rates(traffic.flows, traffic.links);
  constexpr Rate rounding = 8 * 5;  // of so many streams, a part each
  for (std::uint32_t link = 0; link < traffic.links.size(); ++link)
    RC_ASSERT(load(traffic, rates, link) <= traffic.links[link].capacity);
  for (std::size_t f = 0; f < rates.size(); ++f) {
    RC_ASSERT(rates[f] > 0 && rates[f] <= kFullSpeed);
    const bool held_back = std::ranges::any_of(traffic.flows[f], [&](const LinkTake& take) {
      for (std::size_t other = 0; other < rates.size(); ++other) {
        const bool on_it = std::ranges::count(traffic.flows[other], take.link, &LinkTake::link) > 0;
        if (on_it && rates[other] > rates[f] + rounding) return false;
      }
      return load(traffic, rates, take.link) + rounding >= traffic.links[take.link].capacity;
    });
    RC_ASSERT(rates[f] == kFullSpeed || held_back);
  }
}

RC_GTEST_PROP(FairRatesProperty, TheOrderOfFlowsDoesNotMatter, ()) {
  Traffic traffic = draw_traffic();
  const std::vector<Rate> rates = fair_rates(traffic.flows, traffic.links);
  std::reverse(traffic.flows.begin(), traffic.flows.end());
  std::vector<Rate> reversed = fair_rates(traffic.flows, traffic.links);
  std::reverse(reversed.begin(), reversed.end());
  RC_ASSERT(rates == reversed);
}

/// Of two flows in different directions one is the bottleneck of the long one: the textbook's example.
TEST(FairRates, ALongFlowGetsTheShareOfItsNarrowestLink) {
  const std::vector<Link> links = {{"a", kFullSpeed}, {"b", kFullSpeed / 2}};
  const std::vector<std::vector<LinkTake>> flows = {{{0}, {1}}, {{0}}, {{1}}};
  EXPECT_EQ(fair_rates(flows, links),
            (std::vector<Rate>{kFullSpeed / 4, kFullSpeed * 3 / 4, kFullSpeed / 4}));
}

struct SharedCase {
  AnalyzedProgram analyzed;
  CostTable costs;
};

std::optional<SharedCase> draw_case() {
  const Schedule schedule = *test::schedules(test::general_shapes());
  const auto seed = *rc::gen::arbitrary<std::uint64_t>();
  SharedCase drawn{{test::random_program(schedule, 0, seed), test::random_capabilities(false, seed + 2)},
                   test::random_costs(schedule.pipeline().stages(), seed + 1)};
  if (!compile(drawn.analyzed)) return std::nullopt;
  return drawn;
}

TimedTrace alone(const SharedCase& c) {
  return simulate_beside_transfers(c.analyzed, {c.costs, CostTable()}).value().value();
}
TimedTrace shared(const SharedCase& c, const SharedLinks& links) {
  return simulate_shared(c.analyzed, {c.costs, CostTable()}, links).value().run.value();
}

NodeNetwork draw_network() {
  return {.ranks = *rc::gen::inRange(1, 4),
          .cyclic = *rc::gen::arbitrary<bool>(),
          .nics = *rc::gen::inRange(1, 3)};
}

RC_GTEST_PROP(SharedLinksProperty, WideLinksChangeNothingToTheRound, ()) {
  const auto c = draw_case();
  RC_PRE(c.has_value());
  NodeNetwork network = draw_network();
  network.speed = network.core = kFullSpeed * 100000;
  const bool same = shared(*c, shared_links(c->analyzed, network)) == alone(*c);
  RC_ASSERT(same);
}

RC_GTEST_PROP(SharedLinksProperty, NothingEndsEarlierThanAlone, ()) {
  const auto c = draw_case();
  RC_PRE(c.has_value());
  NodeNetwork network = draw_network();
  network.speed = kFullSpeed / *rc::gen::inRange(1, 5);
  network.core = kFullSpeed * *rc::gen::inRange(0, 3);
  const TimedTrace slow = shared(*c, shared_links(c->analyzed, network));
  const TimedTrace fast = alone(*c);
  for (std::size_t i = 0; i < c->analyzed.program().size(); ++i) {
    const InstructionId id(static_cast<std::int32_t>(i));
    RC_ASSERT(fast.spans[id].start <= slow.spans[id].start && fast.spans[id].end <= slow.spans[id].end);
  }
}

/// Two engines: with a table for computation beside transfers that says nothing new, the one that knows of
/// what is in flight on each rank runs.
RC_GTEST_PROP(SharedLinksProperty, BothEnginesAgreeToTheRound, ()) {
  const auto drawn = draw_case();
  RC_PRE(drawn.has_value());
  const AnalyzedProgram analyzed(drawn->analyzed.program(), transport("nccl").value());
  RC_PRE(compile(analyzed).has_value());
  NodeNetwork network = draw_network();
  network.speed = kFullSpeed / *rc::gen::inRange(1, 5);
  network.core = kFullSpeed * *rc::gen::inRange(0, 3);
  const SharedLinks links = shared_links(analyzed, network);
  const SharedRun events = simulate_shared(analyzed, {drawn->costs, drawn->costs}, links).value();
  const SharedRun items = simulate_shared(analyzed, {drawn->costs, CostTable()}, links).value();
  const bool same = events.run.value() == items.run.value();
  RC_ASSERT(same);
  RC_ASSERT(events.uses == items.uses);
}

/// When each message of 60 ns has arrived that leaves one node for another, so long after 100 ns.
std::vector<Nanoseconds> arrivals_of(const std::vector<Nanoseconds>& begins, Rate speed = kFullSpeed) {
  const auto n = static_cast<int>(begins.size());
  const Schedule pair = generate("forward-only", {.ranks = 2, .microbatches = 1}).value();
  CostTable costs;
  for (int i = 0; i < n; ++i) {
    costs.set({OpKind::forward, 2 * i}, 100 + begins[static_cast<std::size_t>(i)]);
    costs.set({OpKind::send_forward, 2 * i}, 60);
  }
  const AnalyzedProgram analyzed(lower(replicated(pair, n).value(), {}).value(), rendezvous());
  const Program& program = analyzed.program();
  // Senders have even numbers.
  const SharedLinks links = shared_links(analyzed, {.ranks = n, .cyclic = true, .speed = speed});
  const SharedRun run = simulate_shared(analyzed, {costs, CostTable()}, links).value();
  std::vector<Nanoseconds> ends;
  for (int i = 0; i < n; ++i) ends.push_back(run.run->spans[program.first(RankId(2 * i + 1))].end.time - 100);
  return ends;
}

/// Of n messages, one every `apart` ns.
std::vector<Nanoseconds> arrivals(int n, Nanoseconds apart, Rate speed = kFullSpeed) {
  std::vector<Nanoseconds> begins;
  for (int i = 0; i < n; ++i) begins.push_back(i * apart);
  return arrivals_of(begins, speed);
}

std::vector<Nanoseconds> draw_begins() {
  const auto count = *rc::gen::inRange<std::size_t>(1, 9);
  return *rc::gen::container<std::vector<Nanoseconds>>(count, rc::gen::inRange<Nanoseconds>(0, 400));
}

TEST(SharedLinks, TwoFlowsShareALink) {
  EXPECT_EQ(arrivals(1, 0), (std::vector<Nanoseconds>{60}));
  EXPECT_EQ(arrivals(2, 0), (std::vector<Nanoseconds>{120, 120}));
  // 2c - d and 2c: the first goes alone for d.
  EXPECT_EQ(arrivals(2, 20), (std::vector<Nanoseconds>{100, 120}));
  EXPECT_EQ(arrivals(2, 60), (std::vector<Nanoseconds>{60, 120}));
  EXPECT_EQ(arrivals(2, 0, 2 * kFullSpeed), (std::vector<Nanoseconds>{60, 60}));
  EXPECT_EQ(arrivals(1, 0, kFullSpeed / 4), (std::vector<Nanoseconds>{240}));
}

TEST(SharedLinks, ThreeFlowsShareALink) {
  EXPECT_EQ(arrivals(3, 0), (std::vector<Nanoseconds>{180, 180, 180}));
  // 3c - 5d/2, 3c - d/2 and 3c.
  EXPECT_EQ(arrivals(3, 12), (std::vector<Nanoseconds>{150, 174, 180}));
  EXPECT_EQ(arrivals(3, 0, kFullSpeed * 3 / 2), (std::vector<Nanoseconds>{120, 120, 120}));
}

/// Whenever they come, a link moves what there is as long as there is anything: it works as it would one by
/// one, in the order of their beginnings.
RC_GTEST_PROP(SharedLinksProperty, ALinkLosesNothing, ()) {
  std::vector<Nanoseconds> begins = draw_begins();
  const auto ends = arrivals_of(begins);
  std::sort(begins.begin(), begins.end());
  Nanoseconds last = 0;
  for (const Nanoseconds begin : begins) last = std::max(last, begin) + 60;
  const Nanoseconds found = *std::max_element(ends.begin(), ends.end());
  const auto begun = static_cast<Nanoseconds>(begins.size());  // a nanosecond that was begun counts
  RC_ASSERT(found >= last && found <= last + begun);
}

/// Who is the first rank and who the last one does not matter.
RC_GTEST_PROP(SharedLinksProperty, PermutedRanksHavePermutedTimes, ()) {
  const std::vector<Nanoseconds> begins = draw_begins();
  std::vector<std::size_t> order(begins.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto keys = *rc::gen::container<std::vector<int>>(begins.size(), rc::gen::arbitrary<int>());
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return keys[i]; });
  std::vector<Nanoseconds> permuted;
  for (const std::size_t i : order) permuted.push_back(begins[i]);
  const Rate speed = kFullSpeed / *rc::gen::inRange(1, 7);
  const auto ends = arrivals_of(begins, speed);
  const auto of_permuted = arrivals_of(permuted, speed);
  for (std::size_t i = 0; i < order.size(); ++i) RC_ASSERT(of_permuted[i] == ends[order[i]]);
}

/// On one link alone more speed helps everybody, and a message more hurts nobody's rivals less.
RC_GTEST_PROP(SharedLinksProperty, OneFasterLinkDelaysNobody, ()) {
  std::vector<Nanoseconds> begins = draw_begins();
  const Rate speed = kFullSpeed / *rc::gen::inRange(2, 5);
  const auto ends = arrivals_of(begins, speed);
  const auto faster = arrivals_of(begins, speed + kFullSpeed / *rc::gen::inRange(2, 5));
  for (std::size_t i = 0; i < ends.size(); ++i) RC_ASSERT(faster[i] <= ends[i]);
  begins.push_back(*rc::gen::inRange<Nanoseconds>(0, 400));
  const auto more = arrivals_of(begins, speed);
  for (std::size_t i = 0; i < ends.size(); ++i) RC_ASSERT(more[i] >= ends[i]);
}

/// A rank that has another number is still on its node: the links are those of the messages.
RC_GTEST_PROP(SharedLinksProperty, NumbersOfLinksAndOrderOfMessagesDoNotMatter, ()) {
  const auto c = draw_case();
  RC_PRE(c.has_value());
  NodeNetwork network = draw_network();
  network.core = kFullSpeed;
  const SharedLinks links = shared_links(c->analyzed, network);
  SharedLinks renumbered = links;
  std::reverse(renumbered.links.begin(), renumbered.links.end());
  for (auto& taken : renumbered.taken) {
    for (LinkTake& take : taken) take.link = static_cast<std::uint32_t>(links.links.size()) - 1 - take.link;
  }
  const bool same = shared(*c, links) == shared(*c, renumbered);
  RC_ASSERT(same);
}

TEST(SharedLinks, NamesAndUsesOfLinks) {
  const Schedule schedule = generate("1f1b", {.ranks = 4, .microbatches = 2}).value();
  const AnalyzedProgram analyzed(lower(schedule, {}).value(), rendezvous());
  const SharedLinks links = shared_links(analyzed, {.ranks = 2, .core = kFullSpeed});
  std::vector<std::string> names;
  for (const Link& link : links.links) names.push_back(link.name);
  std::sort(names.begin(), names.end());
  EXPECT_EQ(names, (std::vector<std::string>{"core", "node 0 in", "node 0 out", "node 1 in", "node 1 out"}));
  CostTable costs;
  costs.set({OpKind::send_forward}, 10);
  costs.set({OpKind::send_backward}, 10);
  const SharedRun run = simulate_shared(analyzed, {costs, CostTable()}, links).value();
  for (std::size_t i = 0; i < links.links.size(); ++i) {
    const bool is_core = links.links[i].name == "core";
    EXPECT_EQ(run.uses[i].flows, is_core ? 4 : 2) << links.links[i].name;
    EXPECT_GE(run.uses[i].busy, 20) << links.links[i].name;
  }
}

}  // namespace
}  // namespace ppsim
