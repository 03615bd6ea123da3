// Time to find the fewest credits for 1F1B whose receives stand directly before their consumers, on one queue
// a rank, and the smallest repair of it, verified again: ranks, microbatches. `changes` is their number.

#include <benchmark/benchmark.h>

#include "ppsim/core/lowering/lowering.hpp"
#include "ppsim/schedules/registry.hpp"
#include "ppsim/verifier/repair/repair.hpp"

namespace {

using namespace ppsim;

Program ungrouped_1f1b(const benchmark::State& state) {
  const auto schedule = generate(
      "1f1b", {.ranks = static_cast<int>(state.range(0)), .microbatches = static_cast<int>(state.range(1))});
  return *lower(*schedule, {.order = IssueOrder::early, .communicators = CommunicatorPolicy::per_rank});
}

void fewest_credits_of_1f1b(benchmark::State& state) {
  const Program program = ungrouped_1f1b(state);
  for (auto _ : state) {
    const auto answer = fewest_credits(program, {});
    state.counters["changes"] = static_cast<double>(std::get<FewestCredits>(answer).channels.size());
  }
}
BENCHMARK(fewest_credits_of_1f1b)
    ->Name("repair_credits")
    ->ArgNames({"ranks", "microbatches"})
    ->Args({8, 64})
    ->Args({64, 128})
    ->Unit(benchmark::kMillisecond);

void repair_of_1f1b(benchmark::State& state) {
  const Program program = ungrouped_1f1b(state);
  for (auto _ : state) {
    const auto answer = repair(program);
    state.counters["changes"] = static_cast<double>(std::get<Repaired>(answer).changes.size());
  }
}
BENCHMARK(repair_of_1f1b)
    ->Name("repair_1f1b")
    ->ArgNames({"ranks", "microbatches"})
    ->Args({8, 64})
    ->Args({64, 128})
    ->Unit(benchmark::kMillisecond);

}  // namespace
