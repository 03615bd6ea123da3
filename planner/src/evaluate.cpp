#include "ppsim/planner/evaluate.hpp"

#include <algorithm>

#include "ppsim/core/execution/rank_ranges.hpp"
#include "ppsim/core/ir/inference.hpp"
#include "ppsim/planner/costs/priced_program.hpp"
#include "ppsim/simulator/engine/list_run.hpp"
#include "ppsim/simulator/engine/stuck.hpp"
#include "ppsim/simulator/metrics/measure_sized.hpp"
#include "require_well_formed.hpp"

namespace ppsim::planner {
namespace {

/// The checks of a Program, and its run in the order of its lists, if it has one: on two threads where there
/// is enough to do, as both need the graph alone.
class CheckedListRun {
 public:
  CheckedListRun(const AnalyzedProgram& analyzed, const CostTable& costs, PhaseTimes& phases)
      : analyzed_(analyzed), costs_(costs), phases_(phases) {}

  /// Errors: those of the checks, whatever came of the run.
  Expected<std::optional<Expected<TimedTrace>>> run() {
    const bool together = rank_ranges(analyzed_.program()).size() > 1;
    if (together) all_at_once(2, [&](std::size_t i) { i == 0 ? run_lists() : check(); });
    if (!together) check();
    PPSIM_RETURN_IF_ERROR(good_);
    if (!together) run_lists();
    return std::move(run_);
  }

 private:
  void check() {
    Stopwatch watch;
    good_ = require_well_formed(analyzed_);
    phases_.checks = watch.lap();
  }
  void run_lists() {
    Stopwatch watch;
    run_ = run_in_list_order(analyzed_, costs_);
    phases_.simulation = watch.lap();
  }

  const AnalyzedProgram& analyzed_;
  const CostTable& costs_;
  PhaseTimes& phases_;
  Expected<void> good_;
  std::optional<Expected<TimedTrace>> run_;
};

/// Times of a run, and what each of its parts takes. A Program that runs in the order of its lists is
/// compiled for nothing: it runs once.
Expected<SimulatedRun> checked_run(const AnalyzedProgram& analyzed, const Tables& tables,
                                   PhaseTimes& phases) {
  const ContendedCosts contended{tables.costs, tables.beside_transfers};
  Stopwatch watch;
  if (analyzed.capabilities().residency || contended.differ_on(analyzed.capabilities())) {
    PPSIM_RETURN_IF_ERROR(require_well_formed(analyzed));
    phases.checks = watch.lap();
    auto run = simulate_beside_transfers(analyzed, contended);
    phases.simulation = watch.lap();
    return run;
  }
  PPSIM_ASSIGN_OR_RETURN(auto listed, CheckedListRun(analyzed, tables.costs, phases).run());
  if (listed) return std::move(*listed).map([](TimedTrace trace) { return SimulatedRun(std::move(trace)); });
  static_cast<void>(watch.lap());
  static_cast<void>(analyzed.order());
  phases.order = watch.lap();
  const auto compiled = compile(analyzed);
  if (!compiled) return SimulatedRun(tl::unexpect, compiled.error());
  PPSIM_ASSIGN_OR_RETURN(const auto bound, bind_costs(*compiled, tables.costs));
  phases.compilation = watch.lap();
  SimulatedRun run = simulate_trace(*compiled, analyzed.timed_graph(), bound);
  phases.simulation = watch.lap();
  return run;
}

bool sends(const Program& program) {
  return std::ranges::any_of(program.all_actions(),
                             [](const Action& action) { return is_send(action.kind); });
}

}  // namespace

StepWork SimulatedStep::work() const {
  // The backward is two thirds of the operations that training counts.
  const double share = trains(program()) ? 1 : 1.0 / 3;
  return {costs.tokens_per_step.value_or(0), share * costs.model_flops_per_step.value_or(0),
          costs.peak_flops.value_or(0)};
}

Nanoseconds SimulatedStep::step() const { return whole_step(program(), costs.ends, metrics.times); }

Bytes SimulatedStep::peak_bytes() const {
  Bytes most = 0;
  for (const RankMetrics& rank : metrics.ranks) most = std::max(most, rank.peak_bytes);
  return most;
}

std::optional<Bytes> SimulatedStep::sent_bytes() const {
  if (!costs.has_sizes) return std::nullopt;
  Bytes sum = 0;
  for (const RankMetrics& rank : metrics.ranks) sum = checked_add(sum, rank.sent_bytes);
  if (sum == 0 && sends(program())) return std::nullopt;
  return sum;
}

std::optional<Bytes> SimulatedStep::sent_bytes(RankId rank) const {
  return sent_bytes() ? std::optional(metrics.ranks[rank].sent_bytes) : std::nullopt;
}

Bytes SimulatedStep::max_communicator_bytes() const {
  Bytes most = 0;
  for (const Bytes of_rank : communicator_bytes) most = std::max(most, of_rank);
  return most;
}

bool SimulatedStep::fits() const {
  if (!costs.memory_limit) return true;
  for (const RankId rank : metrics.ranks.ids()) {
    const Bytes beside = communicator_bytes.empty() ? 0 : communicator_bytes[rank];
    if (checked_add(metrics.ranks[rank].peak_bytes, beside) > *costs.memory_limit) return false;
  }
  return true;
}

Expected<SimulatedStep> evaluate(std::string name, Program program, CostBinding costs,
                                 const TransportCapabilities& capabilities) {
  PhaseTimes phases;
  Stopwatch watch;
  AnalyzedProgram analyzed(std::move(program), capabilities);
  static_cast<void>(analyzed.timed_graph());
  phases.graph = watch.lap();
  auto run = checked_run(analyzed, costs.tables, phases);
  PPSIM_RETURN_IF_ERROR(run);
  if (!*run) return tl::unexpected(to_error(analyzed.program(), run->error()));
  static_cast<void>(watch.lap());
  SimulatedStep result{std::move(name), std::move(analyzed), std::move(costs), **std::move(run), {}};
  result.tensors = sized_tensors(result.program(), result.costs.tables.sizes);
  result.metrics = measure(result.timed_run(), result.tensors);
  phases.metrics = watch.lap();
  result.simulate_seconds = static_cast<double>(phases.simulation) * 1e-9;
  result.phases = phases;
  return result;
}

}  // namespace ppsim::planner
