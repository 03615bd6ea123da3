// Compute actions per second of the simulator on the lowered Program, beside a plain loop over flat arrays.

#include <benchmark/benchmark.h>

#include <map>
#include <memory>
#include <tuple>

#include "bench_programs.hpp"
#include "ppsim/core/ir/check.hpp"
#include "ppsim/simulator/engine/batch.hpp"
#include "ppsim/simulator/engine/list_run.hpp"
#include "ppsim/simulator/engine/simulate.hpp"

namespace {

using namespace ppsim;
using namespace ppsim::bench;

Shape shape_of(const benchmark::State& state) {
  return {static_cast<int>(state.range(0)), static_cast<int>(state.range(1)),
          static_cast<int>(state.range(2))};
}

double compute_actions(const Shape& shape) { return 2.0 * shape.ranks * shape.chunks * shape.microbatches; }

/// Program, graph and compiled form of the shape that was asked for last; one at a time, they are large.
struct Prepared {
  explicit Prepared(const Shape& shape)
      : program(lowered_program(shape)),
        graph(build_execution_graph(program, rendezvous())),
        compiled(compile({program, rendezvous()}).value()),
        costs(bind_costs(compiled, bench_costs()).value()) {}
  Program program;
  ExecutionGraph graph;
  CompiledProgram compiled;
  BoundCosts costs;
};

const Prepared& prepared(const Shape& shape) {
  static std::unique_ptr<Prepared> kept;
  static std::tuple<int, int, int> kept_for;
  const std::tuple<int, int, int> key{shape.ranks, shape.microbatches, shape.chunks};
  if (kept == nullptr || kept_for != key) {
    kept.reset();
    kept = std::make_unique<Prepared>(shape);
    kept_for = key;
  }
  return *kept;
}

template <class T>
double bytes_of(const std::vector<T>& items) {
  return static_cast<double>(items.size() * sizeof(T));
}

void report(benchmark::State& state, const Shape& shape, double bytes) {
  state.counters["actions/s"] =
      benchmark::Counter(compute_actions(shape), benchmark::Counter::kIsIterationInvariantRate);
  state.counters["time/action"] = benchmark::Counter(
      compute_actions(shape), benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
  state.counters["bytes/action"] = bytes / compute_actions(shape);
}

/// The bar: order-driven recurrence on the schedule.
void flat_loop(benchmark::State& state) {
  const Shape shape = shape_of(state);
  const FlatSchedule schedule = flat_schedule(shape);
  std::vector<std::int64_t> ends;
  for (auto _ : state) benchmark::DoNotOptimize(run_flat(schedule, ends));
  report(state, shape, bytes_of(schedule.steps) + bytes_of(ends));
}

/// Makespan and bubble of a compiled Program.
void simulate_step(benchmark::State& state) {
  const Shape shape = shape_of(state);
  const Prepared& p = prepared(shape);
  SimulationScratch scratch;
  double bubble = 0;
  for (auto _ : state) {
    const StepTimes times = simulate(p.compiled, p.costs, scratch);
    benchmark::DoNotOptimize(bubble = bubble_fraction(times));
  }
  std::vector<std::int64_t> ends;
  PPSIM_CHECK(bubble == run_flat(flat_schedule(shape), ends).bubble_fraction,
              "the simulator and the plain loop disagree");
  report(state, shape, bytes_of(p.compiled.items) + bytes_of(scratch.ends));
}

/// The same for as many cost vectors as there are lanes; actions are those of all of them.
void simulate_lanes(benchmark::State& state) {
  const Shape shape = shape_of(state);
  const Prepared& p = prepared(shape);
  const BatchProgram batch(p.compiled);
  BatchProgram::Scratch scratch;
  std::vector<LaneTimes> durations(p.costs.durations.size());
  for (std::size_t d = 0; d < durations.size(); ++d) {
    for (std::size_t lane = 0; lane < kLanes; ++lane)
      durations[d].of[lane] = p.costs.durations[d] * static_cast<Nanoseconds>(lane + 1);
  }
  std::vector<StepTimes> times(kLanes);
  for (auto _ : state) {
    batch.simulate(durations, scratch, times);
    benchmark::DoNotOptimize(times.data());
  }
  SimulationScratch single;
  PPSIM_CHECK(times[0] == simulate(p.compiled, p.costs, single), "a lane and a single run disagree");
  state.counters["actions/s"] = benchmark::Counter(compute_actions(shape) * static_cast<double>(kLanes),
                                                   benchmark::Counter::kIsIterationInvariantRate);
}

/// Start and end of every instruction, with rounds.
void simulate_traced(benchmark::State& state) {
  const Shape shape = shape_of(state);
  const Prepared& p = prepared(shape);
  for (auto _ : state) benchmark::DoNotOptimize(simulate_trace(p.compiled, p.graph, p.costs));
  report(state, shape, static_cast<double>(p.program.size() * sizeof(Span)));
}

/// The same of a Program that is not compiled.
void run_once(benchmark::State& state) {
  const Shape shape = shape_of(state);
  const Prepared& p = prepared(shape);
  const AnalyzedProgram analyzed(p.program, rendezvous());
  static_cast<void>(analyzed.graph());
  const CostTable costs = bench_costs();
  for (auto _ : state) benchmark::DoNotOptimize(run_in_list_order(analyzed, costs));
  report(state, shape, static_cast<double>(p.program.size() * sizeof(Span)));
}

void build_graph(benchmark::State& state) {
  const Shape shape = shape_of(state);
  const Prepared& p = prepared(shape);
  for (auto _ : state) benchmark::DoNotOptimize(build_execution_graph(p.program, rendezvous()));
  report(state, shape, bytes_of(p.graph.predecessors) + bytes_of(p.graph.messages));
}

void compile_program(benchmark::State& state) {
  const Shape shape = shape_of(state);
  const Prepared& p = prepared(shape);
  const AnalyzedProgram analyzed(p.program, rendezvous());
  static_cast<void>(analyzed.order());
  for (auto _ : state) benchmark::DoNotOptimize(compile(analyzed));
  report(state, shape, bytes_of(p.compiled.items) + bytes_of(p.compiled.end_item));
}

struct Case {
  const char* name;
  void (*run)(benchmark::State&);
};
constexpr Case kCases[] = {{"flat_loop", flat_loop},
                           {"simulate_step", simulate_step},
                           {"simulate_lanes", simulate_lanes},
                           {"simulate_traced", simulate_traced},
                           {"run_once", run_once},
                           {"build_graph", build_graph},
                           {"compile_program", compile_program}};

/// Shape by shape, so that what was prepared for one serves all of its benchmarks.
bool register_all() {
  for (const auto& [p, m] :
       {std::pair{8, 64}, std::pair{64, 512}, std::pair{64, 4096}, std::pair{512, 8192}}) {
    for (const int v : {1, 2}) {
      for (const Case& c : kCases) {
        benchmark::RegisterBenchmark(c.name, c.run)
            ->ArgNames({"p", "m", "v"})
            ->Args({p, m, v})
            ->Unit(benchmark::kMicrosecond);
      }
    }
  }
  return true;
}

const bool kRegistered = register_all();

}  // namespace
