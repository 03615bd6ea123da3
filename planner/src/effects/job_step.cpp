#include "ppsim/planner/effects/job_step.hpp"

#include <algorithm>
#include <cmath>

#include "ppsim/core/ir/inference.hpp"

namespace ppsim::planner {
namespace {

Expected<void> check(const SimulatedStep& planned, const JobNetwork& network) {
  if (planned.capabilities().residency)
    return make_error(ErrorCode::bad_argument, "the GPUs of a job have no residency limit",
                      {.found = "a limit", .expected = "a transport without one, or --ranks-per-node"});
  if (planned.contended().differ_on(planned.capabilities()))
    return make_error(ErrorCode::bad_argument,
                      "computation that is slower beside transfers is for one pipeline",
                      {.found = "transfer_channels of a stack", .expected = "none, or --ranks-per-node"});
  if (network.oversubscription != 0 && !(network.oversubscription >= 1))
    return make_error(ErrorCode::bad_argument, "a network is oversubscribed or not",
                      {.found = std::to_string(network.oversubscription), .expected = "1 or more"});
  return {};
}

/// The exchanges of tensor-parallel ranks during each action. A backward that recomputes has the forward's as
/// well.
std::map<CostClass, TensorExchange> exchanges_of(const AnalyticCosts& costs, const Workload& workload) {
  std::map<CostClass, TensorExchange> exchanges;
  for (const auto& [stage, found] : costs.exchanges) {
    const TensorExchange once{found.count, found.each, found.beside};
    TensorExchange backward = once;
    if (workload.parallelism.recompute(stage) == Recompute::full) backward.count *= 2;
    exchanges[{OpKind::forward, stage.value()}] = once;
    exchanges[{OpKind::recompute, stage.value()}] = once;
    exchanges[{OpKind::backward, stage.value()}] = backward;
    exchanges[{OpKind::backward_input, stage.value()}] = backward;
  }
  return exchanges;
}

PipelineCopies copies_of(const SimulatedStep& planned, const AnalyticCosts& costs, const Workload& workload) {
  const Parallelism& parallelism = workload.parallelism;
  PipelineCopies copies{.tensor = parallelism.tensor,
                        .context = parallelism.context,
                        .data = parallelism.data,
                        .exchanges = exchanges_of(costs, workload)};
  const Program& program = planned.program();
  if (planned.costs.ends.empty() || !trains(program) || program.has(OpKind::reduce_grad)) return copies;
  for (const StepEnd& end : planned.costs.ends) copies.reductions.push_back(end.reduction);
  return copies;
}

GpuNetwork network_of(const Workload& workload, const JobNetwork& network) {
  const NodeDescription& node = workload.cluster.node;
  GpuNetwork result{.node = node.gpus,
                    .domain = workload.cluster.job_domain(),
                    .nics = network.nics == 0 ? node.gpus : network.nics,
                    .pipelines_apart = workload.parallelism.rank_order == RankOrder::tp_cp_pp_dp,
                    .rails = network.rails};
  if (network.oversubscription > 0) {
    const double nics = static_cast<double>(simulator::kFullSpeed) * workload.parallelism.gpus();
    result.core = std::llround(nics / network.oversubscription);
  }
  return result;
}

}  // namespace

Expected<JobStep> job_step(const SimulatedStep& planned, const Workload& workload,
                           const JobNetwork& network) {
  PPSIM_RETURN_IF_ERROR(check(planned, network));
  PPSIM_ASSIGN_OR_RETURN(const auto costs, analytic_costs(workload, planned.program().pipeline()));
  PipelineCopies copies = copies_of(planned, costs, workload);
  copies.folding = network.folding;
  PPSIM_ASSIGN_OR_RETURN(auto run, simulate_copies(planned.analyzed, planned.costs.tables.costs, copies,
                                                   network_of(workload, network)));
  if (!run) return tl::unexpected(to_error(planned.program(), run.error()));
  Nanoseconds update = 0;
  if (trains(planned.program()) && !planned.program().has(OpKind::optimizer))
    for (const StepEnd& end : planned.costs.ends) update = std::max(update, end.update);
  const Nanoseconds step = checked_add(run->reduced, update);
  return JobStep{*std::move(run), step};
}

}  // namespace ppsim::planner
