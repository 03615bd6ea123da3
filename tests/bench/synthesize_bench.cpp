// Time to find a shortest schedule within a limit of live microbatches and to prove that it is one, without
// any schedule to start from: ranks, microbatches, limit. `value` is in units, `optimal` 1 when proved.

#include <benchmark/benchmark.h>

#include "ppsim/verifier/synthesis/synthesis.hpp"

namespace {

using namespace ppsim;

void synthesize_for(benchmark::State& state, const UnitCosts& costs, Objective objective) {
  SynthesisRequest request;
  request.ranks = static_cast<int>(state.range(0));
  request.microbatches = static_cast<int>(state.range(1));
  request.activation_limit = static_cast<int>(state.range(2));
  request.costs = unit_cost_table(costs);
  request.objective = objective;
  for (auto _ : state) {
    const auto answer = synthesize(request);
    if (!answer) continue;
    const auto& found = std::get<Synthesized>(*answer);
    state.counters["value"] = static_cast<double>(found.value) / kUnitTime;
    state.counters["optimal"] = found.optimal() ? 1 : 0;
    state.counters["queries"] = found.queries;
  }
}

void synthesize_unit(benchmark::State& state) { synthesize_for(state, {}, Objective::makespan); }
BENCHMARK(synthesize_unit)
    ->ArgNames({"ranks", "microbatches", "limit"})
    ->Args({4, 6, 4})
    ->Args({4, 12, 4})
    ->Args({4, 64, 3})
    ->Args({8, 16, 5})
    ->Args({8, 32, 8})
    ->Args({8, 32, 5})
    ->Args({8, 64, 5})
    ->Args({8, 64, 8})
    ->Args({16, 64, 16})
    ->Args({16, 512, 16})
    ->Unit(benchmark::kMillisecond);

void synthesize_564(benchmark::State& state) {
  synthesize_for(state, {.F = 5, .I = 6, .W = 4}, Objective::span);
}
BENCHMARK(synthesize_564)
    ->ArgNames({"ranks", "microbatches", "limit"})
    ->Args({4, 8, 8})
    ->Args({4, 8, 3})
    ->Args({4, 32, 3})
    ->Unit(benchmark::kMillisecond);

void synthesize_with_transfers(benchmark::State& state) {
  synthesize_for(state, {.F = 18.5, .I = 18.0, .W = 9.5, .c = 0.5}, Objective::span);
}
BENCHMARK(synthesize_with_transfers)
    ->ArgNames({"ranks", "microbatches", "limit"})
    ->Args({4, 12, 4})
    ->Args({8, 16, 8})
    ->Unit(benchmark::kMillisecond);

}  // namespace
