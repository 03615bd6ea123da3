// Time to make the adaptive order of the V placement at p=8, where its authors' Python takes 0.7 to 8 s, and
// the bubble that comes out at equal costs (m=24: 23, 11 and 0 units of 144 at the limits 8, 12 and 16).

#include <benchmark/benchmark.h>

#include <string>

#include "ppsim/schedules/registry.hpp"

namespace {

using namespace ppsim;

ScheduleParameters parameters_of(const benchmark::State& state) {
  return {.ranks = static_cast<int>(state.range(0)),
          .microbatches = static_cast<int>(state.range(1)),
          .settings = {{"memory_limit", std::to_string(state.range(2))}}};
}

void run(benchmark::State& state, ScheduleParameters parameters) {
  for (auto _ : state) benchmark::DoNotOptimize(generate("v-adaptive", parameters));
}

void v_adaptive_even(benchmark::State& state) { run(state, parameters_of(state)); }

/// 6.2B of the Zero Bubble paper's table 6, a chunk half of a stage.
void v_adaptive_profiled(benchmark::State& state) {
  ScheduleParameters parameters = parameters_of(state);
  parameters.costs = unit_cost_table({.F = 14.859, .I = 14.722, .W = 9.964, .c = 0.527});
  run(state, parameters);
}

void cases(benchmark::internal::Benchmark* bench) {
  bench->ArgNames({"p", "m", "limit"})->Unit(benchmark::kMillisecond);
  for (const int limit : {4, 8, 12, 16}) bench->Args({8, 24, limit});
  bench->Args({8, 64, 16})->Args({32, 128, 48});
}
BENCHMARK(v_adaptive_even)->Apply(cases);
BENCHMARK(v_adaptive_profiled)->Apply(cases);

}  // namespace
