// Time to generate every schedule of the registry at 64 ranks and 4096 microbatches, beside the time to
// simulate it once from its Program: graph, compiled form and run. `of_simulation` is the ratio, measured in
// one run.

#include <benchmark/benchmark.h>

#include <chrono>
#include <string>

#include "ppsim/core/lowering/lowering.hpp"
#include "ppsim/schedules/registry.hpp"
#include "ppsim/simulator/engine/simulate.hpp"

namespace {

using namespace ppsim;

constexpr int kRanks = 64;
constexpr int kMicrobatches = 4096;

double seconds_to_simulate(const Schedule& schedule, const CostTable& costs) {
  const auto program = lower(schedule, {});
  if (!program) return 0;
  const auto begin = std::chrono::steady_clock::now();
  benchmark::DoNotOptimize(simulate_program(*program, rendezvous(), costs));
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

void generate_schedule(benchmark::State& state, const ScheduleInfo& info) {
  const ScheduleParameters parameters{.ranks = kRanks, .microbatches = kMicrobatches};
  const auto schedule = generate(info.name, parameters);
  if (!schedule) {
    state.SkipWithError(schedule.error().message.c_str());
    return;
  }
  const double simulation = seconds_to_simulate(*schedule, unit_cost_table({}));
  const auto begin = std::chrono::steady_clock::now();
  for (auto _ : state) benchmark::DoNotOptimize(generate(info.name, parameters));
  const double spent = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  const auto runs = static_cast<double>(state.iterations());
  state.counters["of_simulation"] = simulation > 0 ? spent / runs / simulation : 0;
  state.counters["actions"] = static_cast<double>(schedule->action_count());
}

/// The registry is known at run time only.
const bool kRegistered = [] {
  for (const ScheduleInfo& info : registered_schedules()) {
    benchmark::RegisterBenchmark(("generate/" + std::string(info.name)).c_str(), generate_schedule, info)
        ->Unit(benchmark::kMillisecond);
  }
  return true;
}();

}  // namespace
