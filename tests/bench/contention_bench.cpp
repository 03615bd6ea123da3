// Events per second where transfers share links: one Program on NICs of nodes, and all 1,024 GPUs of a job.

#include <benchmark/benchmark.h>

#include "bench_programs.hpp"
#include "effects/activities.hpp"
#include "ppsim/core/ir/check.hpp"
#include "ppsim/simulator/effects/pipeline_copies.hpp"

namespace {

using namespace ppsim;
using namespace ppsim::bench;

void report_events(benchmark::State& state, std::int64_t events) {
  state.counters["events/s"] =
      benchmark::Counter(static_cast<double>(events), benchmark::Counter::kIsIterationInvariantRate);
  state.counters["events"] = static_cast<double>(events);
}

/// Nodes of eight ranks with one NIC each, ranks by turns on all nodes: every message leaves its node. The
/// core carries one message of `over` ranks: where that is 64, it alone ties all of 64 ranks; 0: no limit.
NodeNetwork few_nics(const Shape& shape, std::int64_t over) {
  return {.ranks = 8, .cyclic = true, .core = over == 0 ? 0 : simulator::kFullSpeed * shape.ranks / over};
}

void shared_nics(benchmark::State& state) {
  const Shape shape{static_cast<int>(state.range(0)), static_cast<int>(state.range(1)), 1};
  const AnalyzedProgram analyzed(lowered_program(shape), rendezvous());
  const SharedLinks links = shared_links(analyzed, few_nics(shape, state.range(2)));
  const CostTable costs = bench_costs();
  const auto items = static_cast<std::int64_t>(compile(analyzed).value().items.size());
  for (auto _ : state)
    benchmark::DoNotOptimize(simulate_shared(analyzed, {costs, CostTable()}, links).value());
  report_events(state, items);
}
BENCHMARK(shared_nics)
    ->ArgNames({"p", "m", "over"})
    ->Args({8, 64, 16})
    ->Args({64, 512, 16})
    ->Args({64, 512, 64})
    ->Unit(benchmark::kMillisecond);

/// The run of shared_nics alone, without compilation and the making of a trace: begins and ends of
/// activities.
void shared_nics_run(benchmark::State& state) {
  const Shape shape{64, 512, 1};
  const AnalyzedProgram analyzed(lowered_program(shape), rendezvous());
  const SharedLinks links = shared_links(analyzed, few_nics(shape, state.range(0)));
  const auto compiled = compile(analyzed).value();
  const simulator::Routes routes = simulator::routes_of(links);
  const simulator::ActivityGraph graph =
      simulator::activities_of(compiled, bind_costs(compiled, bench_costs()).value(), routes);
  for (auto _ : state) {
    simulator::Flows flows(routes, links.links);
    benchmark::DoNotOptimize(simulator::run_activities(graph, {}, flows));
  }
  report_events(state, 2 * static_cast<std::int64_t>(graph.size()));
}
BENCHMARK(shared_nics_run)->ArgName("over")->Arg(16)->Arg(0)->Arg(64)->Unit(benchmark::kMillisecond);

/// TP 8, PP 8, DP 16, 16 microbatches, 12 layers a stage with two exchanges each, gradients reduced at the
/// end, and a core that is 2:1 oversubscribed.
void all_gpus(benchmark::State& state) {
  const Shape shape{8, 16, 1};
  const AnalyzedProgram analyzed(lowered_program(shape), rendezvous());
  PipelineCopies copies{.tensor = 8, .data = 16};
  for (int stage = 0; stage < shape.ranks; ++stage) {
    copies.exchanges[{OpKind::forward, stage}] = {.count = 24, .each = kUnitTime / 100};
    copies.exchanges[{OpKind::backward, stage}] = {.count = 24, .each = kUnitTime / 100};
    copies.reductions.push_back(kUnitTime);
  }
  const GpuNetwork network{.core = simulator::kFullSpeed * copies.size() * shape.ranks / 2};
  copies.folding = state.range(0) == 1 ? Folding::never : Folding::where_equal;
  std::int64_t activities = 0;
  for (auto _ : state)
    activities = simulate_copies(analyzed, bench_costs(), copies, network).value()->activities;
  report_events(state, activities);
}
BENCHMARK(all_gpus)->ArgNames({"each"})->Arg(0)->Arg(1)->Unit(benchmark::kMillisecond);

}  // namespace
