// Time to generate the greedy zero-bubble order for profiled costs: ranks, microbatches, and the memory limit
// in multiples of the ranks. The published Python (sail-sg/zero-bubble-pipeline-parallelism, zb.py) takes 0.3
// to 1.5 s for these, hundreds of times as long, to the same `span_ns`.

#include <benchmark/benchmark.h>

#include <algorithm>
#include <string>

#include "ppsim/core/lowering/earliest_times.hpp"
#include "ppsim/schedules/registry.hpp"

namespace {

using namespace ppsim;

/// The 1.5B model of Qi et al., arXiv 2401.10241, table 6.
CostTable profiled_costs() {
  CostTable costs;
  costs.set({OpKind::forward}, 18'522'000);
  costs.set({OpKind::backward_input}, 18'086'000);
  costs.set({OpKind::backward_weight}, 9'337'000);
  costs.set({OpKind::send_forward}, 601'000);
  costs.set({OpKind::send_backward}, 601'000);
  return costs;
}

Nanoseconds span_of(const Schedule& schedule, const CostTable& costs) {
  const auto times = earliest_times(schedule, costs);
  if (!times) return 0;
  std::vector<Nanoseconds> start(static_cast<std::size_t>(schedule.pipeline().ranks()), -1);
  Nanoseconds span = 0;
  for (const EarliestTimes::Item& item : times->walk) {
    Nanoseconds& first = start[item.rank.index()];
    if (first < 0) first = item.start;
    span = std::max(span, item.end - first);
  }
  return span;
}

void generate_zb_greedy(benchmark::State& state) {
  const auto ranks = static_cast<int>(state.range(0));
  const ScheduleParameters parameters{.ranks = ranks,
                                      .microbatches = static_cast<int>(state.range(1)),
                                      .settings = {{"memory_limit", std::to_string(ranks * state.range(2))}},
                                      .costs = profiled_costs()};
  for (auto _ : state) benchmark::DoNotOptimize(generate("zb-greedy", parameters));
  const auto schedule = generate("zb-greedy", parameters);
  if (schedule) state.counters["span_ns"] = static_cast<double>(span_of(*schedule, *parameters.costs));
}
BENCHMARK(generate_zb_greedy)
    ->ArgNames({"ranks", "microbatches", "limit"})
    ->ArgsProduct({{32}, {96, 256}, {1, 2}})
    ->Unit(benchmark::kMillisecond);

}  // namespace
