// Comparing two schedules for all costs in intervals, with the graphs of both.

#include <benchmark/benchmark.h>

#include <string>

#include "ppsim/core/ir/check.hpp"
#include "ppsim/core/lowering/lowering.hpp"
#include "ppsim/planner/costs/cost_intervals.hpp"
#include "ppsim/schedules/registry.hpp"
#include "ppsim/verifier/intervals/never_slower.hpp"

namespace {

using namespace ppsim;

Program program_of(const std::string& name, int ranks, int microbatches, const CostTable& costs) {
  ScheduleParameters parameters;
  parameters.ranks = ranks;
  parameters.microbatches = microbatches;
  LoweringOptions options;
  options.order = IssueOrder::timed;
  return lower(generate(name, parameters).value(), options, &costs).value();
}

struct Case {
  const char* first;
  const char* second;
  int ranks;
  int microbatches;
  const char* costs;
  bool per_stage;
};

constexpr Case kCases[] = {
    {"zb-h1", "1f1b", 16, 32, "F=0.5..2,I=0.5..2,W=0.5..2", false},
    {"zb-h1", "1f1b", 16, 32, "F=0.5..2,I=0.5..2,W=0.5..2,c=0..0.1", false},
    {"1f1b", "zb-h1", 16, 32, "F=0.5..2,I=0.5..2,W=0.5..2,c=0..0.1", false},
    {"zb-h1", "1f1b", 16, 32, "F=0.5..2,I=0.5..2,W=0.5..2", true},
    {"v-min", "v-half", 16, 64, "F=0.5..2,I=0.5..2,W=0.5..2,c=0..1", false},
    {"zb-h1", "1f1b", 64, 512, "F=0.5..2,I=0.5..2,W=0.5..2,c=0..0.1", false},
};

void never_slower_for_all_costs(benchmark::State& state, CompareMethod method) {
  const Case& c = kCases[state.range(0)];
  const CostIntervals intervals = parse_cost_intervals(c.costs).value();
  const CostTable middle = shared_costs(intervals).middle();
  const Program first = program_of(c.first, c.ranks, c.microbatches, middle);
  const Program second = program_of(c.second, c.ranks, c.microbatches, middle);
  const CostSpace space = c.per_stage ? stage_costs(intervals, c.ranks) : shared_costs(intervals);
  std::string verdict;
  for (auto _ : state) {
    const NeverSlowerAnswer answer = never_slower({first, second, space, {}, {}, method}).value();
    PPSIM_CHECK(!std::holds_alternative<Unknown>(answer.verdict), "not decided");
    verdict = std::holds_alternative<Proved>(answer.verdict) ? "proved" : "refuted";
    state.counters["evaluated"] = static_cast<double>(answer.evaluated);
    state.counters["paths"] = static_cast<double>(answer.paths);
  }
  state.SetLabel(std::string(c.first) + " <= " + c.second + " p=" + std::to_string(c.ranks) +
                 " m=" + std::to_string(c.microbatches) + ' ' + c.costs +
                 (c.per_stage ? " per stage " : " ") + verdict);
}

void never_slower_automatic(benchmark::State& state) {
  never_slower_for_all_costs(state, CompareMethod::automatic);
}
BENCHMARK(never_slower_automatic)->DenseRange(0, 5)->Unit(benchmark::kMillisecond);

void never_slower_paths(benchmark::State& state) { never_slower_for_all_costs(state, CompareMethod::paths); }
BENCHMARK(never_slower_paths)->DenseRange(0, 1)->Unit(benchmark::kMillisecond);

}  // namespace
