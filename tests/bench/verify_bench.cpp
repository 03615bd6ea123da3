// Time to verify one Program: deadlock and matching with the construction of the graph, the shortest cycle of
// one that hangs, and the exact worst-case memory of every rank. Arguments: ranks, microbatches.

#include <benchmark/benchmark.h>

#include <string>

#include "ppsim/core/ir/check.hpp"
#include "ppsim/core/lowering/lowering.hpp"
#include "ppsim/schedules/registry.hpp"
#include "ppsim/verifier/verify.hpp"

namespace {

using namespace ppsim;

Program program_of(const std::string& name, const benchmark::State& state, const LoweringOptions& options) {
  ScheduleParameters parameters;
  parameters.ranks = static_cast<int>(state.range(0));
  parameters.microbatches = static_cast<int>(state.range(1));
  if (name == "interleaved-1f1b") parameters.chunks = 4;
  return lower(generate(name, parameters).value(), options).value();
}

void deadlock(benchmark::State& state, const char* name) {
  const Program program = program_of(name, state, {});
  VerifyOptions options;
  options.properties = {Property::matched, Property::deadlock_free};
  for (auto _ : state) PPSIM_CHECK(verify(program, options).all_proved(), "not proved");
  state.counters["instructions"] = static_cast<double>(program.size());
}
BENCHMARK_CAPTURE(deadlock, interleaved, "interleaved-1f1b")->Args({64, 512})->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(deadlock, 1f1b, "1f1b")->Args({256, 2048})->Unit(benchmark::kMillisecond);

/// Of 1F1B without groups, one queue a rank: its graph is there already.
void shortest_cycle(benchmark::State& state) {
  const Program program =
      program_of("1f1b", state, {.order = IssueOrder::early, .communicators = CommunicatorPolicy::per_rank});
  const ExecutionGraph graph = build_execution_graph(program, {});
  const RunOrder order = run_order(graph);
  for (auto _ : state) {
    const Deadlock found = explain_deadlock(program, graph, order);
    PPSIM_CHECK(!found.cycle.empty(), "no cycle");
    state.counters["waits"] = static_cast<double>(found.cycle.size());
  }
}
BENCHMARK(shortest_cycle)->Args({64, 512})->Unit(benchmark::kMillisecond);

/// Activations of 10, each buffer of a send or a receive 1; without a limit, the bound is found.
void memory(benchmark::State& state, const char* name) {
  const Program program = program_of(name, state, {});
  VerifyOptions options;
  options.properties = {Property::memory};
  options.sizes = activation_size_table(10);
  for (const TensorKind kind : {TensorKind::boundary_input, TensorKind::boundary_output,
                                TensorKind::incoming_gradient, TensorKind::outgoing_gradient})
    options.sizes->set({.kind = kind}, 1);
  for (auto _ : state) PPSIM_CHECK(verify(program, options).all_proved(), "not proved");
}
BENCHMARK_CAPTURE(memory, 1f1b, "1f1b")->Args({64, 512})->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(memory, zb_h1, "zb-h1")->Args({64, 512})->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(memory, interleaved, "interleaved-1f1b")->Args({64, 512})->Unit(benchmark::kMillisecond);

}  // namespace
