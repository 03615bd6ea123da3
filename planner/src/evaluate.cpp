#include "ppsim/planner/evaluate.hpp"

#include <algorithm>
#include <chrono>

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

}  // namespace ppsim::planner
