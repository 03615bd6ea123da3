// All GPUs of a job at once: copies that do the same count as one, flows that do not compete lose nothing,
// and those that compete follow closed forms.

#include "ppsim/simulator/effects/pipeline_copies.hpp"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>

#include "ppsim/core/lowering/lowering.hpp"
#include "ppsim/schedules/registry.hpp"

namespace ppsim {
namespace {

using simulator::kFullSpeed;

struct CopyCase {
  AnalyzedProgram analyzed;
  CostTable costs;
  PipelineCopies copies;
  GpuNetwork network;
};

CopiedRun run_copies(const CopyCase& c, Folding folding) {
  PipelineCopies copies = c.copies;
  copies.folding = folding;
  return simulate_copies(c.analyzed, c.costs, copies, c.network).value().value();
}

AnalyzedProgram analyzed_schedule(const char* name, int ranks, int microbatches) {
  const Schedule schedule = generate(name, {.ranks = ranks, .microbatches = microbatches}).value();
  return {lower(schedule, {}).value(), rendezvous()};
}

CopyCase draw_copies(const char* name) {
  const int ranks = *rc::gen::inRange(2, 5);
  CopyCase c{analyzed_schedule(name, ranks, *rc::gen::inRange(1, 5)), {}, {}, {}};
  for (const OpKind kind : {OpKind::forward, OpKind::backward, OpKind::send_forward, OpKind::send_backward})
    c.costs.set({kind}, *rc::gen::inRange(100, 1000));
  c.copies = {.tensor = *rc::gen::element(1, 2, 4),
              .context = *rc::gen::element(1, 2),
              .data = *rc::gen::element(1, 2, 3, 4)};
  for (const OpKind kind : {OpKind::forward, OpKind::backward}) {
    for (int stage = 0; stage < ranks; ++stage) {
      c.copies.exchanges[{kind, stage}] = {*rc::gen::inRange(0, 4), *rc::gen::inRange<Nanoseconds>(0, 40),
                                           *rc::gen::arbitrary<bool>()};
    }
  }
  for (int r = 0; r < ranks; ++r) c.copies.reductions.push_back(*rc::gen::inRange<Nanoseconds>(0, 500));
  c.network.node = *rc::gen::element(1, 2, 4, 8);
  c.network.domain = *rc::gen::element(1, 2, 4, 8, 16);
  c.network.nics = *rc::gen::suchThat(rc::gen::inRange(1, 9), [&](int n) { return c.network.node % n == 0; });
  c.network.pipelines_apart = *rc::gen::arbitrary<bool>();
  c.network.rails = *rc::gen::arbitrary<bool>();
  if (*rc::gen::arbitrary<bool>())
    c.network.core = kFullSpeed * c.copies.size() * ranks / *rc::gen::inRange(1, 9);
  return c;
}

RC_GTEST_PROP(PipelineCopiesProperty, FoldedCopiesAreAllCopiesToTheRound, ()) {
  const CopyCase c = draw_copies(*rc::gen::element("1f1b", "gpipe"));
  const CopiedRun folded = run_copies(c, Folding::where_equal);
  const CopiedRun all = run_copies(c, Folding::never);
  RC_TAG(folded.simulated_copies < all.simulated_copies ? "folded" : "not folded");
  RC_ASSERT(all.simulated_copies == c.copies.size());
  RC_ASSERT(folded.trace == all.trace);
  RC_ASSERT(folded.makespan == all.makespan && folded.reduced == all.reduced);
  RC_ASSERT(folded.all_activities == all.all_activities);
  // A link of the first copy carries the same, whichever copies are simulated.
  for (std::size_t i = 0; i < folded.links.size(); ++i) {
    if (folded.uses[i].flows == 0) continue;
    RC_ASSERT(folded.uses[i] == all.uses[i]);
  }
}

/// Messages that all go forward, each GPU with its own NIC, exchanges within domains: no flows share a link.
RC_GTEST_PROP(PipelineCopiesProperty, WhereNothingCompetesTimesAreThoseOfOnePipeline, ()) {
  CopyCase c = draw_copies("forward-only");
  c.network.domain = c.network.node = c.copies.tensor;
  c.network.nics = c.network.node;
  c.network.core = 0;
  c.copies.reductions = {};
  const TimedTrace alone = simulate_beside_transfers(c.analyzed, {c.costs, CostTable()}).value().value();
  const CopiedRun run = run_copies(c, *rc::gen::element(Folding::where_equal, Folding::never));
  for (std::size_t i = 0; i < c.analyzed.program().size(); ++i) {
    const InstructionId id(static_cast<std::int32_t>(i));
    RC_ASSERT(run.trace.spans[id].start.time == alone.spans[id].start.time);
    RC_ASSERT(run.trace.spans[id].end.time == alone.spans[id].end.time);
  }
}

RC_GTEST_PROP(PipelineCopiesProperty, NoInstructionEndsEarlierThanAlone, ()) {
  const CopyCase c = draw_copies("1f1b");
  const TimedTrace alone = simulate_beside_transfers(c.analyzed, {c.costs, CostTable()}).value().value();
  const CopiedRun run = run_copies(c, Folding::where_equal);
  for (std::size_t i = 0; i < c.analyzed.program().size(); ++i) {
    const InstructionId id(static_cast<std::int32_t>(i));
    RC_ASSERT(run.trace.spans[id].end.time >= alone.spans[id].end.time);
  }
}

/// One message of 600 ns between two stages, in each of 8 copies at once.
CopyCase one_message(const GpuNetwork& network) {
  CopyCase c{analyzed_schedule("forward-only", 2, 1), {}, {.tensor = 4, .data = 2}, network};
  c.costs.set({OpKind::forward}, 1000);
  c.costs.set({OpKind::send_forward}, 600);
  return c;
}

Nanoseconds makespan(const GpuNetwork& network) {
  const CopyCase c = one_message(network);
  EXPECT_EQ(run_copies(c, Folding::never).makespan, run_copies(c, Folding::where_equal).makespan);
  return run_copies(c, Folding::where_equal).makespan;
}

TEST(PipelineCopies, MessagesShareNicsRailsAndTheCore) {
  // Ranks of one stage fill a node of 8: each of its GPUs sends to the same place in the other node.
  EXPECT_EQ(makespan({}), 2600);
  // Half as many NICs are twice as fast: no GPU had more than its share.
  EXPECT_EQ(makespan({.nics = 4}), 2600);
  // A core of 4 streams for 8; traffic that stays on its rail does not pass it.
  EXPECT_EQ(makespan({.core = 4 * kFullSpeed}), 2000 + 2 * 600);
  EXPECT_EQ(makespan({.core = 4 * kFullSpeed, .rails = true}), 2600);
  // Pipelines apart: both stages of a pipeline are in one node, and NVLink has a link for each GPU.
  EXPECT_EQ(makespan({.pipelines_apart = true, .core = kFullSpeed}), 2600);
}

/// A message over NVLink beside an exchange of its GPU: rank 0 sends its first output while it computes the
/// second one, of which 300 of 1000 ns are an exchange at the end.
TEST(PipelineCopies, AMessageAndAnExchangeShareNvlink) {
  CopyCase c{analyzed_schedule("forward-only", 2, 2), {}, {.tensor = 2}, {.node = 4, .domain = 4, .nics = 4}};
  c.costs.set({OpKind::forward}, 1000);
  c.costs.set({OpKind::send_forward}, 900);
  c.copies.exchanges[{OpKind::forward, 0}] = {.count = 1, .each = 300};
  // The message has 700 ns alone; then both have half a link. Its remaining 200 ns take 400, in which 200 of
  // the exchange are done: 100 more.
  const CopiedRun run = run_copies(c, Folding::where_equal);
  const Program& program = c.analyzed.program();
  std::vector<Nanoseconds> ends;
  for (InstructionId id = program.first(RankId(0)); id < program.last(RankId(0));
       id = InstructionId(id.value() + 1))
    ends.push_back(run.trace.spans[id].end.time);
  std::sort(ends.begin(), ends.end());
  EXPECT_EQ(ends, (std::vector<Nanoseconds>{1000, 1000 + 700 + 400, 1000 + 700 + 400 + 100, 2200 + 900}));
  EXPECT_EQ(run.simulated_copies, 1);
}

/// An exchange beside computation is hidden until it takes longer than that.
TEST(PipelineCopies, AnExchangeBesideComputationCountsWhereItIsLonger) {
  CopyCase c{analyzed_schedule("forward-only", 2, 1),
             {},
             {.tensor = 2, .data = 2},
             {.node = 2, .domain = 1, .nics = 2}};
  c.costs.set({OpKind::forward}, 1000);
  c.copies.exchanges[{OpKind::forward, 0}] = {.count = 2, .each = 400, .beside = true};
  EXPECT_EQ(run_copies(c, Folding::where_equal).makespan, 2000);
  // 8 streams at once over a core of 2 in the place of 4: 400 ns take 800, twice.
  c.network.core = 2 * kFullSpeed;
  EXPECT_EQ(run_copies(c, Folding::where_equal).makespan, 1600 + 1000);
}

TEST(PipelineCopies, WhatNoNetworkIsIsRefused) {
  CopyCase c = one_message({.nics = 3});
  EXPECT_FALSE(simulate_copies(c.analyzed, c.costs, c.copies, c.network));
  c.network = {};
  c.copies.data = 0;
  EXPECT_FALSE(simulate_copies(c.analyzed, c.costs, c.copies, c.network));
}

}  // namespace
}  // namespace ppsim
