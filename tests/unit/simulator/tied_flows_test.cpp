// Flows that one link ties have a clock in common. Where there are more links than it looks at, every flow
// counts for itself: links that nobody takes show whether both are the same, to the nanosecond and the round.

#include <gtest/gtest.h>

#include <random>

#include "ppsim/core/ir/replicas.hpp"
#include "ppsim/core/lowering/lowering.hpp"
#include "ppsim/schedules/registry.hpp"
#include "ppsim/simulator/effects/shared_links.hpp"

namespace ppsim::test::tied_flows_test {
namespace {

struct Case {
  AnalyzedProgram analyzed;
  CostTable costs;
  NodeNetwork network;
};

SharedRun run(const Case& c, bool one_by_one) {
  SharedLinks links = shared_links(c.analyzed, c.network);
  if (one_by_one) links.links.resize(links.links.size() + 100);
  SharedRun found = simulate_shared(c.analyzed, {c.costs, CostTable()}, links).value();
  found.uses.resize(shared_links(c.analyzed, c.network).links.size());
  return found;
}

void expect_same(const Case& c) {
  const SharedRun tied = run(c, false);
  const SharedRun apart = run(c, true);
  ASSERT_TRUE(tied.run.has_value());
  EXPECT_TRUE(*tied.run == *apart.run);
  EXPECT_EQ(tied.uses, apart.uses);
}

/// Pairs of ranks, each with some messages, that begin and take random times.
Case pairs(std::mt19937& random) {
  const auto draw = [&](int first, int last) {
    return std::uniform_int_distribution<int>(first, last)(random);
  };
  const int count = draw(6, 24);
  const Schedule pair = generate("forward-only", {.ranks = 2, .microbatches = draw(1, 4)}).value();
  CostTable costs;
  for (int i = 0; i < count; ++i) {
    costs.set({OpKind::forward, 2 * i}, draw(1, 60));
    costs.set({OpKind::send_forward, 2 * i}, draw(0, 90));
  }
  const NodeNetwork network{.ranks = draw(1, 3) == 1 ? count : draw(1, 4),
                            .cyclic = draw(0, 1) == 1,
                            .nics = draw(1, 2),
                            .speed = simulator::kFullSpeed / draw(1, 3) * draw(1, 3),
                            .core = simulator::kFullSpeed / draw(1, 12) * draw(0, 3)};
  return {{lower(replicated(pair, count).value(), {}).value(), rendezvous()}, std::move(costs), network};
}

TEST(TiedFlows, PairsTakeAsLongAsOneByOne) {
  std::mt19937 random(7);
  for (int i = 0; i < 300; ++i) {
    SCOPED_TRACE(i);
    expect_same(pairs(random));
    if (HasFailure()) return;
  }
}

TEST(TiedFlows, PipelinesTakeAsLongAsOneByOne) {
  std::mt19937 random(8);
  for (const int ranks : {12, 16, 24}) {
    const Schedule schedule = generate("1f1b", {.ranks = ranks, .microbatches = 2 * ranks}).value();
    for (const simulator::Rate core :
         {simulator::kFullSpeed / 3, simulator::kFullSpeed, 3 * simulator::kFullSpeed}) {
      CostTable costs;
      for (int s = 0; s < ranks; ++s) {
        costs.set({OpKind::forward, s}, 1000 + static_cast<Nanoseconds>(random() % 200));
        costs.set({OpKind::backward, s}, 2000 + static_cast<Nanoseconds>(random() % 200));
        costs.set({OpKind::send_forward, s}, 500 + static_cast<Nanoseconds>(random() % 100));
        costs.set({OpKind::send_backward, s}, 500 + static_cast<Nanoseconds>(random() % 100));
      }
      expect_same({{lower(schedule, {}).value(), rendezvous()},
                   costs,
                   {.ranks = 4, .cyclic = true, .nics = 4, .core = core}});
    }
  }
}

}  // namespace
}  // namespace ppsim::test::tied_flows_test
