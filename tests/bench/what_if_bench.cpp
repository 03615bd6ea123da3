// What-if points of --model in a warm process: costs of a workload, and one pass of the engine.

#include <benchmark/benchmark.h>

#include "ppsim/planner/costs/priced_program.hpp"
#include "ppsim/planner/evaluate.hpp"
#include "ppsim/planner/ir_source.hpp"

namespace {

using namespace ppsim;

Workload workload_of(int ranks, int microbatches) {
  Workload workload;
  workload.model = model_from_name("llama3-70b").value();
  workload.cluster = cluster_from_name("dgx-h100", ranks).value();
  workload.parallelism = {.tensor = 8, .pipeline = ranks, .global_batch_size = microbatches};
  return workload;
}

Program program_of(const Workload& workload) {
  const ScheduleParameters parameters{.ranks = workload.parallelism.pipeline,
                                      .microbatches = workload.parallelism.microbatches()};
  const Ir ir = ir_from_name("1f1b", parameters).value();
  const CostBinding costs = bind_cost_source(workload, pipeline_of(ir)).value();
  return to_program(ir, {}, &costs.tables.costs).value();
}

/// Another machine or model under the same schedule.
void what_if_point(benchmark::State& state) {
  Workload workload = workload_of(static_cast<int>(state.range(0)), static_cast<int>(state.range(1)));
  PricedProgram program = PricedProgram::make(program_of(workload)).value();
  for (auto _ : state) {
    workload.cluster.gpu.memory_tbps *= 1.000001;
    benchmark::DoNotOptimize(program.step(workload).value());
  }
}

/// The same with another schedule at every point: generated, lowered, checked and measured.
void what_if_schedule(benchmark::State& state) {
  const Workload workload = workload_of(static_cast<int>(state.range(0)), static_cast<int>(state.range(1)));
  for (auto _ : state) {
    Program program = program_of(workload);
    CostBinding costs = bind_cost_source(workload, program.pipeline()).value();
    benchmark::DoNotOptimize(evaluate("1f1b", std::move(program), std::move(costs)).value().step());
  }
}

BENCHMARK(what_if_point)->Args({8, 64})->Unit(benchmark::kMicrosecond);
BENCHMARK(what_if_schedule)->Args({8, 64})->Unit(benchmark::kMicrosecond);

}  // namespace
