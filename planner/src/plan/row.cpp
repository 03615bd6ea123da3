#include "plan/row.hpp"

#include <algorithm>

#include "costs/costed_program.hpp"
#include "ppsim/core/ir/transports.hpp"
#include "ppsim/planner/costs/rank_memory.hpp"

namespace ppsim::planner {
namespace {

Expected<TransportCapabilities> transport_of(const PlanRequest& request, const Parallelism& parallelism) {
  const bool launches = parallelism.tensor > 1 || parallelism.context > 1 || parallelism.expert > 1;
  return transport(request.transport.empty() ? "any" : request.transport, launches);
}

/// The Program of a choice and its costs. Errors: those of check_parallelism and costed_program.
Expected<CostedProgram> program_of_choice(const PlanRequest& request, const PlanChoice& choice,
                                          const PipelineLayout* layout = nullptr) {
  Workload work = workload_of(request, choice);
  if (layout != nullptr) work.layout = *layout;
  PPSIM_RETURN_IF_ERROR(check_parallelism(work.parallelism, work.model, work.cluster));
  return costed_program(work, choice.schedule, choice.chunks);
}

StepParts parts_of(const SimulatedStep& step) {
  const auto ranks = static_cast<Nanoseconds>(step.metrics.ranks.size());
  Nanoseconds busy = 0;
  for (const RankMetrics& rank : step.metrics.ranks) busy = checked_add(busy, rank.times.busy);
  StepParts parts;
  parts.layers = busy / ranks;
  parts.communication = step.metrics.bubble().exposed_communication / ranks;
  parts.bubble = step.metrics.times.makespan - parts.layers - parts.communication;
  parts.step_end = step.step() - step.metrics.times.makespan;
  return parts;
}

}  // namespace

Workload workload_of(const PlanRequest& request, const PlanChoice& choice) {
  Workload work = request.work;
  work.cluster.nodes = choice.nodes;
  work.parallelism = choice.parallelism;
  work.layout = choice.layout;
  if (choice.checkpoints) work.stack.checkpoints = choice.checkpoints;
  return work;
}

Expected<SimulatedStep> evaluate_choice(const PlanRequest& request, const PlanChoice& choice,
                                        const PipelineLayout* layout) {
  PPSIM_ASSIGN_OR_RETURN(const auto capabilities, transport_of(request, choice.parallelism));
  PPSIM_ASSIGN_OR_RETURN(auto planned, program_of_choice(request, choice, layout));
  const EdgeMemory of_edge = edge_memory(request.transport);
  auto step = evaluate(choice.schedule, std::move(planned.program), std::move(planned.costs), capabilities);
  if (step && of_edge != EdgeMemory())
    step->communicator_bytes = communicator_bytes(step->program(), of_edge);
  return step;
}

PlanRow row_of(const SimulatedStep& step, const PlanChoice& choice) {
  PlanRow row{.choice = choice, .layout = step.costs.layout.value_or(PipelineLayout())};
  row.step = step.step();
  row.parts = parts_of(step);
  for (const RankId rank : step.metrics.ranks.ids()) {
    const Bytes beside = step.communicator_bytes.empty() ? 0 : step.communicator_bytes[rank];
    row.peak_bytes = std::max(row.peak_bytes, checked_add(step.metrics.ranks[rank].peak_bytes, beside));
  }
  row.memory_limit = step.costs.memory_limit.value_or(0);
  row.tokens_per_second = tokens_per_second(step.work(), step.step());
  row.model_flops_utilization = model_flops_utilization(step.work(), step.step());
  return row;
}

Expected<PlanRow> plan_row(const PlanRequest& request, const PlanChoice& choice) {
  return evaluate_choice(request, choice).map([&](const SimulatedStep& step) {
    return row_of(step, choice);
  });
}

Expected<VerifyReport> verify_plan(const PlanRequest& request, const PlanChoice& choice) {
  PPSIM_ASSIGN_OR_RETURN(const auto capabilities, transport_of(request, choice.parallelism));
  PPSIM_ASSIGN_OR_RETURN(const auto planned, program_of_choice(request, choice));
  VerifyOptions options{.capabilities = capabilities,
                        .sizes = planned.costs.tables.sizes,
                        .memory_limit = planned.costs.memory_limit,
                        .stopped = request.stopped};
  options.properties = {Property::well_formed, Property::matched, Property::deadlock_free, Property::memory};
  return verify(planned.program, options);
}

}  // namespace ppsim::planner
