#include "ppsim/planner/evaluate.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numbers>
#include <random>

#include "percentile.hpp"
#include "ppsim/core/ir/check.hpp"
#include "ppsim/core/ir/inference.hpp"
#include "ppsim/core/ir/overflow.hpp"
#include "ppsim/planner/costs/priced_program.hpp"
#include "ppsim/simulator/engine/stuck.hpp"
#include "require_well_formed.hpp"

namespace ppsim::planner {
namespace {

/// Time of the engine on a compiled Program.
double time_engine(const CompiledProgram& compiled, const BoundCosts& bound) {
  SimulationScratch scratch;
  const auto begin = std::chrono::steady_clock::now();
  static_cast<void>(simulate(compiled, bound, scratch));
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

/// A run and the seconds that the engine takes for its times.
struct ClockedRun {
  SimulatedRun run;
  double seconds = 0;
};

Expected<ClockedRun> clocked_run(const AnalyzedProgram& analyzed, const Tables& tables) {
  const CostTable& costs = tables.costs;
  const ContendedCosts contended{costs, tables.beside_transfers};
  if (analyzed.capabilities().residency || contended.differ_on(analyzed.capabilities())) {
    return simulate_beside_transfers(analyzed, contended).map([](SimulatedRun run) {
      return ClockedRun{std::move(run)};
    });
  }
  const auto compiled = compile(analyzed);
  if (!compiled) return ClockedRun{SimulatedRun(tl::unexpect, compiled.error())};
  PPSIM_ASSIGN_OR_RETURN(const auto bound, bind_costs(*compiled, costs));
  return ClockedRun{simulate_trace(*compiled, analyzed.guaranteed_graph(), bound),
                    time_engine(*compiled, bound)};
}

/// Uniform in (0, 1], the same everywhere.
double uniform(std::mt19937_64& engine) { return (static_cast<double>(engine() >> 11) + 1) * 0x1.0p-53; }

double normal(std::mt19937_64& engine) {
  const double radius = std::sqrt(-2 * std::log(uniform(engine)));
  return radius * std::cos(2 * std::numbers::pi * uniform(engine));
}

/// The costs of a Program with random errors.
Tables jittered(const CompiledProgram& program, const Tables& tables, double deviation,
                std::mt19937_64& engine) {
  Tables result;
  for (const CostClass& key : program.cost_classes) {
    const double scale = std::max(0.0, 1 + deviation * normal(engine));
    const auto scaled = [&](Nanoseconds cost) { return checked_round(static_cast<double>(cost) * scale); };
    result.costs.set(key, scaled(tables.costs(key)));
    if (!tables.beside_transfers.entries().empty())
      result.beside_transfers.set(key, scaled(tables.beside_transfers(key)));
  }
  return result;
}

/// The times of an evaluated Program under other costs.
Expected<Nanoseconds> makespan_under(const Evaluation& evaluation, const CompiledProgram& compiled,
                                     const Tables& tables, SimulationScratch& scratch) {
  const ContendedCosts contended{tables.costs, tables.beside_transfers};
  if (contended.differ_on(evaluation.capabilities())) {
    PPSIM_ASSIGN_OR_RETURN(const auto run, simulate_beside_transfers(evaluation.analyzed, contended));
    return step_times(evaluation.program(), *run).makespan;
  }
  return bind_costs(compiled, tables.costs).map([&](const BoundCosts& bound) {
    return simulate(compiled, bound, scratch).makespan;
  });
}

}  // namespace

StepWork Evaluation::work() const {
  // The backward is two thirds of the operations that training counts.
  const double share = trains(program()) ? 1 : 1.0 / 3;
  return {costs.tokens_per_step.value_or(0), share * costs.model_flops_per_step.value_or(0),
          costs.peak_flops.value_or(0)};
}

Nanoseconds Evaluation::step() const { return whole_step(program(), costs.ends, metrics.times); }

Bytes Evaluation::peak_bytes() const {
  Bytes most = 0;
  for (const RankMetrics& rank : metrics.ranks) most = std::max(most, rank.peak_bytes);
  return most;
}

Bytes Evaluation::sent_bytes() const {
  Bytes sum = 0;
  for (const RankMetrics& rank : metrics.ranks) sum = checked_add(sum, rank.sent_bytes);
  return sum;
}

Bytes Evaluation::max_communicator_bytes() const {
  Bytes most = 0;
  for (const Bytes of_rank : communicator_bytes) most = std::max(most, of_rank);
  return most;
}

bool Evaluation::fits() const {
  if (!costs.memory_limit) return true;
  for (std::size_t r = 0; r < metrics.ranks.size(); ++r) {
    const RankId rank(static_cast<std::int32_t>(r));
    const Bytes beside = communicator_bytes.empty() ? 0 : communicator_bytes[rank];
    if (checked_add(metrics.ranks[rank].peak_bytes, beside) > *costs.memory_limit) return false;
  }
  return true;
}

Expected<Evaluation> evaluate(std::string name, Program program, CostBinding costs,
                              const TransportCapabilities& capabilities) {
  AnalyzedProgram analyzed(std::move(program), capabilities);
  PPSIM_RETURN_IF_ERROR(require_well_formed(analyzed));
  auto clocked = clocked_run(analyzed, costs.tables);
  if (!clocked) return tl::unexpected(clocked.error());
  if (!clocked->run) return tl::unexpected(to_error(analyzed.program(), clocked->run.error()));
  Evaluation result{std::move(name), std::move(analyzed), std::move(costs), *std::move(clocked->run), {}, {},
                    clocked->seconds};
  result.metrics = measure(result.view());
  return result;
}

Expected<JitterResult> simulate_with_jitter(const Evaluation& evaluation, const JitterOptions& options) {
  const auto compiled = compile(evaluation.analyzed);
  PPSIM_CHECK(compiled.has_value(), "a Program that was evaluated compiles");
  std::mt19937_64 engine(options.seed);
  SimulationScratch scratch;
  std::vector<Nanoseconds> makespans;
  double sum = 0;
  for (int run = 0; run < options.runs; ++run) {
    const Tables tables = jittered(*compiled, evaluation.costs.tables, options.deviation, engine);
    PPSIM_ASSIGN_OR_RETURN(const auto makespan, makespan_under(evaluation, *compiled, tables, scratch));
    makespans.push_back(makespan);
    sum += static_cast<double>(makespans.back());
  }
  std::sort(makespans.begin(), makespans.end());
  return JitterResult{sum / static_cast<double>(makespans.size()), percentile(makespans, 0.05),
                      percentile(makespans, 0.5), percentile(makespans, 0.95)};
}

}  // namespace ppsim::planner
