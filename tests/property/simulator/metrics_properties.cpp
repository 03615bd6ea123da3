#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include "ppsim/simulator/metrics/metrics.hpp"
#include "support/random_program.hpp"
#include "support/random_schedule.hpp"

namespace ppsim {
namespace {

struct Run {
  Program program;
  CostTable costs;
  ExecutionGraph graph;
  TimedTrace trace;
};

Run draw_run() {
  const Schedule schedule = *test::schedules(test::general_shapes());
  const auto seed = *rc::gen::arbitrary<std::uint64_t>();
  const int mutations = *rc::gen::inRange(0, 3);
  const bool limited = *rc::gen::arbitrary<bool>();
  const TransportCapabilities capabilities = test::random_capabilities(limited, seed + 2);
  const Program program = test::random_program(schedule, mutations, seed);
  const CostTable costs = test::random_costs(schedule.pipeline().stages(), seed + 1);
  const SimulatedRun run = simulate_program(program, capabilities, costs).value();
  RC_PRE(run.has_value());
  return {program, costs, build_execution_graph(program, guaranteed(capabilities)), *run};
}

RC_GTEST_PROP(MetricsProperty, BubblePartsAddUpToIdleTime, ()) {
  const Run run = draw_run();
  const SizeTable sizes;
  const RunMetrics metrics = measure({run.program, run.graph, run.trace, run.costs, sizes});
  for (const RankMetrics& rank : metrics.ranks) {
    RC_ASSERT(rank.bubble.total() == metrics.times.makespan - rank.times.busy);
    for (const Nanoseconds part : {rank.bubble.warmup, rank.bubble.steady, rank.bubble.cooldown,
                                   rank.bubble.exposed_communication, rank.bubble.imbalance}) {
      RC_ASSERT(part >= 0);
    }
  }
}

RC_GTEST_PROP(MetricsProperty, CriticalPathTilesTheStep, ()) {
  const Run run = draw_run();
  const SizeTable sizes;
  const std::vector<CriticalStep> path = critical_path({run.program, run.graph, run.trace, run.costs, sizes});
  const Nanoseconds makespan = step_times(run.program, run.trace).makespan;
  RC_PRE(run.program.size() > 0);
  RC_ASSERT(!path.empty());
  RC_ASSERT(!path.front().reason);
  RC_ASSERT(path.front().start == 0);
  RC_ASSERT(path.back().end == makespan);
  for (std::size_t i = 1; i < path.size(); ++i) {
    RC_ASSERT(path[i].start == path[i - 1].end);
    RC_ASSERT(path[i].reason.has_value());
  }
}

}  // namespace
}  // namespace ppsim
