// Proofs for every number of microbatches: what recognising a schedule costs, and what each proof does.

#include <benchmark/benchmark.h>

#include <string>

#include "ppsim/core/ir/check.hpp"
#include "ppsim/core/lowering/lowering.hpp"
#include "ppsim/schedules/registry.hpp"
#include "ppsim/verifier/parameterized/all_microbatches.hpp"
#include "ppsim/verifier/parameterized/all_ranks.hpp"
#include "ppsim/verifier/parameterized/ranking.hpp"

namespace {

using namespace ppsim;

const char* const kNames[] = {"1f1b", "zb-h1", "gpipe", "eager-1f1b", "zb-h2"};

Program program_of(const std::string& name, int ranks, int microbatches) {
  ScheduleParameters parameters;
  parameters.ranks = ranks;
  parameters.microbatches = microbatches;
  return lower(generate(name, parameters).value(), {}).value();
}

Repetitions repetitions_of(const std::string& name, int ranks) {
  return find_schedule(name).value()->repetitions({.ranks = ranks});
}

/// Activations of 10, each buffer of a send or a receive 1.
SizeTable buffer_sizes() {
  SizeTable sizes = activation_size_table(10);
  for (const TensorKind kind : {TensorKind::boundary_input, TensorKind::boundary_output,
                                TensorKind::incoming_gradient, TensorKind::outgoing_gradient})
    sizes.set({.kind = kind}, 1);
  return sizes;
}

std::string name_of(benchmark::State& state) {
  std::string name = kNames[state.range(0)];
  state.SetLabel(name + " p=" + std::to_string(state.range(1)));
  return name;
}

/// Deadlock freedom for all m of what was recognised before: find a ranking, check it.
void deadlock_for_all_microbatches(benchmark::State& state) {
  const std::string name = name_of(state);
  const int p = static_cast<int>(state.range(1));
  const PeriodicProgram family =
      find_periodic(program_of(name, p, p + 4), program_of(name, p, p + 5), {}).value();
  for (auto _ : state) {
    const auto ranking = find_ranking(family);
    PPSIM_CHECK(ranking && ranks_all_waits(family, *ranking), "not proved");
  }
}
BENCHMARK(deadlock_for_all_microbatches)
    ->Args({0, 64})
    ->Args({0, 512})
    ->Args({1, 256})
    ->Unit(benchmark::kMillisecond);

/// The whole question, with generating, comparing and recognising.
void verify_all(benchmark::State& state, Property property, std::optional<int> residency) {
  const std::string name = name_of(state);
  const int p = static_cast<int>(state.range(1));
  AllMicrobatchesOptions options;
  options.properties = {property};
  options.capabilities.residency = residency;
  options.timeout_s = 600;
  options.repetitions = repetitions_of(name, p);
  if (property == Property::memory) options.sizes = buffer_sizes();
  double proof_s = 0;
  for (auto _ : state) {
    const auto report =
        verify_all_microbatches([&](int m) -> Expected<Program> { return program_of(name, p, m); }, options)
            .value();
    PPSIM_CHECK(report.proved(property), "not proved");
    proof_s = report.find(property)->seconds;
  }
  state.counters["proof_s"] = proof_s;
}

void memory_for_all_microbatches(benchmark::State& state) { verify_all(state, Property::memory, {}); }
BENCHMARK(memory_for_all_microbatches)
    ->Args({0, 16})
    ->Args({0, 64})
    ->Args({1, 64})
    ->Iterations(1)
    ->Unit(benchmark::kMillisecond);

void three_resident_kernels_for_all_microbatches(benchmark::State& state) {
  verify_all(state, Property::deadlock_free, 3);
}
BENCHMARK(three_resident_kernels_for_all_microbatches)
    ->Args({0, 64})
    ->Args({0, 128})
    ->Args({1, 64})
    ->Iterations(1)
    ->Unit(benchmark::kMillisecond);

/// Every number of ranks, too.
void deadlock_for_all_ranks(benchmark::State& state) {
  const std::string name = name_of(state);
  double proof_s = 0;
  for (auto _ : state) {
    const auto report =
        verify_all_ranks([&](int p, int m) -> Expected<Program> { return program_of(name, p, m); }, {}, {},
                         [&](int p) { return repetitions_of(name, p); });
    PPSIM_CHECK(std::holds_alternative<Proved>(report.value().verdict), "not proved");
    proof_s = report->seconds;
  }
  state.counters["proof_s"] = proof_s;
}
BENCHMARK(deadlock_for_all_ranks)
    ->ArgsProduct({{0, 1, 2, 3, 4}, {0}})
    ->Iterations(1)
    ->Unit(benchmark::kMillisecond);

}  // namespace
