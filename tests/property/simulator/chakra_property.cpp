// Chakra traces: a written trace reads as the same step, and any file is read or refused.

#include "ppsim/simulator/chakra/chakra_trace.hpp"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <numeric>
#include <sstream>

#include "ppsim/core/ir/replicas.hpp"
#include "ppsim/core/lowering/lowering.hpp"
#include "ppsim/schedules/registry.hpp"
#include "ppsim/simulator/engine/simulate.hpp"
#include "ppsim/simulator/metrics/kind_times.hpp"
#include "ppsim/simulator/writers/chakra.hpp"
#include "support/random_program.hpp"

namespace ppsim {
namespace {

/// Sizes of all that travels.
SizeTable some_sizes() {
  SizeTable sizes;
  for (const TensorKind kind :
       {TensorKind::boundary_output, TensorKind::outgoing_gradient, TensorKind::gradients,
        TensorKind::gathered_parameters, TensorKind::boundary_input, TensorKind::incoming_gradient})
    sizes.set({kind}, 1024);
  return sizes;
}

/// Whole microseconds, as the format has them.
CostTable whole_microseconds(const CostTable& costs) {
  CostTable result;
  for (const auto& [key, cost] : costs.entries()) result.set(key, cost * 1000);
  return result;
}

struct Written {
  AnalyzedProgram analyzed;
  CostTable costs;
  std::vector<ChakraFile> files;
  std::string groups;
};

Written written(Program program, CostTable costs) {
  Written result{AnalyzedProgram(std::move(program), rendezvous()), std::move(costs), {}, ""};
  const SizeTable sizes = some_sizes();
  const ChakraInput input{result.analyzed, result.costs, sizes};
  RC_ASSERT(check_chakra(input).has_value());
  for (int r = 0; r < result.analyzed.program().pipeline().ranks(); ++r) {
    std::ostringstream text;
    write_chakra(text, input, RankId(r));
    result.files.push_back({"t." + std::to_string(r) + ".et", text.str()});
  }
  std::ostringstream groups;
  write_chakra_groups(groups, input);
  result.groups = groups.str();
  return result;
}

Written draw_written() {
  const auto name =
      *rc::gen::element<std::string>("1f1b", "gpipe", "zb-h1", "dualpipe-v", "interleaved-1f1b");
  Schedule schedule = generate(name, {.ranks = 2, .microbatches = *rc::gen::inRange(2, 5) * 2}).value();
  const bool replicas = *rc::gen::arbitrary<bool>();
  if (replicas) schedule = replicated(schedule, 2).value();
  LoweringOptions options{.reduce_grad = replicas || *rc::gen::arbitrary<bool>(),
                          .optimizer = *rc::gen::arbitrary<bool>()};
  if (*rc::gen::arbitrary<bool>()) options.offload = offload_from_text("half").value();
  options.grouping = *rc::gen::element(Grouping::none, Grouping::paired);
  const int stages = schedule.pipeline().stages();
  return written(lower(schedule, options).value(),
                 whole_microseconds(test::random_costs(stages, *rc::gen::arbitrary<std::uint64_t>())));
}

RC_GTEST_PROP(ChakraProperty, OutAndInAgainTakesTheSameStep, ()) {
  const Written out = draw_written();
  ChakraTrace trace = read_chakra(out.files).value();
  RC_ASSERT(add_chakra_groups(out.groups, "groups.json", trace).has_value());
  const ChakraRun run = simulate_chakra(trace).value();
  const TimedTrace simulated = *simulate_beside_transfers(out.analyzed, {out.costs, CostTable()}).value();
  RC_ASSERT(run.makespan == trace_span(simulated));
}

/// The trace with the nodes of every rank in another order.
ChakraTrace shuffled(const ChakraTrace& trace) {
  ChakraTrace result{{}, trace.groups};
  for (const std::vector<ChakraNode>& nodes : trace.ranks) {
    std::vector<std::uint32_t> places(nodes.size());  // of each node, in the new order
    std::iota(places.begin(), places.end(), 0U);
    for (std::size_t i = places.size(); i > 1; --i)
      std::swap(places[i - 1], places[*rc::gen::inRange<std::size_t>(0, i)]);
    std::vector<ChakraNode> moved(nodes.size());
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      moved[places[i]] = nodes[i];
      for (std::uint32_t& need : moved[places[i]].needs) need = places[need];
    }
    result.ranks.push_back(std::move(moved));
  }
  return result;
}

RC_GTEST_PROP(ChakraProperty, TheOrderOfNodesInAFileDoesNotCount, ()) {
  ChakraTrace trace = read_chakra(draw_written().files).value();
  for (std::vector<ChakraNode>& nodes : trace.ranks) {
    for (ChakraNode& node : nodes) {
      node.tag = 0;  // which message meets which is the order's alone
      node.duration = *rc::gen::inRange<Nanoseconds>(0, 3);
      if (node.work == ChakraWork::collective) node.group.clear();
    }
  }
  const ChakraTrace other = shuffled(trace);
  const auto one = simulate_chakra(trace);
  const auto two = simulate_chakra(other);
  RC_ASSERT(one.has_value() == two.has_value());
  if (!one) return;
  RC_ASSERT(one->makespan == two->makespan);
  RC_ASSERT(one->busy == two->busy);
}

/// Bytes that are changed, cut off or added never do more than be refused.
RC_GTEST_PROP(ChakraProperty, WhateverAFileHasIsReadOrRefused, ()) {
  static const Written out =
      written(lower(generate("1f1b", {.ranks = 2, .microbatches = 2}).value(), {}).value(),
              unit_cost_table({.F = 1, .B = 2, .c = 0.5}));
  std::vector<ChakraFile> files = out.files;
  std::string& bytes = files[*rc::gen::inRange<std::size_t>(0, 2)].bytes;
  for (int edits = *rc::gen::inRange(1, 6); edits > 0; --edits) {
    if (bytes.empty()) break;
    const auto at = *rc::gen::inRange<std::size_t>(0, bytes.size());
    const auto what = *rc::gen::inRange(0, 3);
    if (what == 0) bytes[at] = static_cast<char>(*rc::gen::inRange(0, 256));
    if (what == 1) bytes.resize(at);
    if (what == 2) bytes.insert(at, 1, static_cast<char>(*rc::gen::inRange(0, 256)));
  }
  const auto trace = read_chakra(files);
  if (!trace) {
    RC_ASSERT(trace.error().code == ErrorCode::bad_file);
    RC_ASSERT(!trace.error().place.file.empty());
    return;
  }
  static_cast<void>(simulate_chakra(*trace, {.gbytes_per_s = 1}));
}

ChakraNode node(std::uint64_t id, ChakraWork work, std::vector<std::uint32_t> needs, Nanoseconds duration) {
  return {.id = id,
          .name = "n" + std::to_string(id),
          .work = work,
          .needs = std::move(needs),
          .duration = duration};
}

ChakraNode message(std::uint64_t id, ChakraWork work, std::vector<std::uint32_t> needs, Bytes bytes) {
  ChakraNode result = node(id, work, std::move(needs), 0);
  result.from = 0;
  result.to = 1;
  result.bytes = bytes;
  return result;
}

TEST(Chakra, ComputationOfARankIsOneAtATime) {
  const ChakraTrace trace{{{node(5, ChakraWork::compute, {}, 10), node(3, ChakraWork::compute, {}, 20),
                            node(7, ChakraWork::host, {}, 100)}},
                          {}};
  const ChakraRun run = simulate_chakra(trace).value();
  EXPECT_EQ(run.spans[0][1], (ChakraSpan{0, 20})) << "the smallest id goes first";
  EXPECT_EQ(run.spans[0][0], (ChakraSpan{20, 30}));
  EXPECT_EQ(run.busy, (std::vector<Nanoseconds>{30}));
  EXPECT_EQ(run.makespan, 100);
}

TEST(Chakra, CopiesAreOneAtATimeBesideComputation) {
  const ChakraTrace trace{{{node(0, ChakraWork::memory, {}, 10), node(1, ChakraWork::memory, {}, 20),
                            node(2, ChakraWork::compute, {}, 25)}},
                          {}};
  const ChakraRun run = simulate_chakra(trace).value();
  EXPECT_EQ(run.spans[0][1], (ChakraSpan{10, 30}));
  EXPECT_EQ(run.spans[0][2], (ChakraSpan{0, 25}));
  EXPECT_EQ(run.busy, (std::vector<Nanoseconds>{25}));
}

TEST(Chakra, MessagesOfOneInstantMeetByTheirIds) {
  ChakraNode first = message(3, ChakraWork::send, {}, 1);
  ChakraNode second = message(8, ChakraWork::send, {}, 1);
  first.duration = 5;
  second.duration = 50;
  // Rank 1 goes on with its first message. In the file of rank 0 the second one stands first.
  const ChakraTrace trace{{{second, first},
                           {message(0, ChakraWork::receive, {}, 1), message(1, ChakraWork::receive, {0}, 1),
                            node(2, ChakraWork::compute, {0}, 100)}},
                          {}};
  EXPECT_EQ(simulate_chakra(trace)->makespan, 105);
}

TEST(Chakra, MessagesAreRendezvousOverTheNetwork) {
  const ChakraTrace trace{
      {{node(0, ChakraWork::compute, {}, 10), message(1, ChakraWork::send, {0}, 3'000)},
       {message(0, ChakraWork::receive, {}, 3'000), node(1, ChakraWork::compute, {0}, 5)}},
      {}};
  EXPECT_EQ(simulate_chakra(trace)->makespan, 15);
  EXPECT_EQ(simulate_chakra(trace)->free_messages, 1);
  const ChakraRun run = simulate_chakra(trace, {.gbytes_per_s = 3, .latency_us = 2}).value();
  EXPECT_EQ(run.makespan, 10 + 2'000 + 1'000 + 5);
  EXPECT_EQ(run.free_messages, 0);
  EXPECT_EQ(simulate_chakra(trace, {.latency_us = 2})->makespan, 10 + 2'000 + 5) << "of latency alone";
}

TEST(Chakra, NamesWhatNeverEnds) {
  const ChakraTrace alone{{{message(4, ChakraWork::send, {}, 1)}, {node(0, ChakraWork::compute, {}, 1)}}, {}};
  const auto waits = simulate_chakra(alone);
  ASSERT_FALSE(waits);
  EXPECT_EQ(waits.error().code, ErrorCode::deadlock);
  EXPECT_NE(to_string(waits.error()).find("node 4 (n4) of rank 0 waits for a counterpart"),
            std::string::npos);
  const ChakraTrace circle{{{node(0, ChakraWork::compute, {1}, 1), node(1, ChakraWork::compute, {0}, 1)}},
                           {}};
  EXPECT_NE(to_string(simulate_chakra(circle).error()).find("nodes that never end"), std::string::npos);
}

}  // namespace
}  // namespace ppsim
