#include <algorithm>

#include "ppsim/core/ir/transports.hpp"
#include "ppsim/planner/costs/workload_words.hpp"
#include "ppsim/planner/effects/job_step.hpp"
#include "ppsim/planner/evaluate.hpp"
#include "ppsim/workload/cluster.hpp"
#include "run_workload.hpp"

namespace ppsim::planner {
namespace {

/// Channels of NCCL, each a block of threads and so a multiprocessor: its default for a peer over the network
/// (NCCL_NCHANNELS_PER_NET_PEER), and the most that a collective has (MAXCHANNELS of src/include/device.h).
constexpr int kTransferChannels = 2;
constexpr int kCollectiveChannels = 32;

/// As many nodes as hold the GPUs; of a run within a node so much of it.
Expected<ClusterDescription> cluster_of(const RunDescription& run) {
  auto cluster = cluster_from_name(run.cluster, 1);
  if (!cluster) return cluster;
  const int each = cluster->node.gpus;
  if (run.gpus < each) {
    cluster->node.gpus = run.gpus;
    return cluster;
  }
  if (run.gpus % each != 0) {
    return make_error(
        ErrorCode::bad_argument, "the GPUs do not fill their nodes",
        {.found = std::to_string(run.gpus), .expected = "a multiple of " + std::to_string(each)});
  }
  return cluster_from_name(run.cluster, run.gpus / each);
}

DataType data_type_of(Precision precision) {
  switch (precision) {
    case Precision::fp16:
    case Precision::bf16:
      return DataType::bf16;
    case Precision::fp8:
    case Precision::mxfp8:
      return DataType::fp8;
    case Precision::nvfp4:
      return DataType::nvfp4;
  }
  return DataType::bf16;
}

Expected<PipelineLayout> layout_of(const RunDescription& run) {
  if (!run.layout.empty()) return parse_layout(run.layout);
  return usual_layout(run.model.layers, run.pipeline * run.chunks);
}

Expected<SoftwareStack> stack_of(const RunDescription& run) {
  auto stack = stack_from_argument(run.stack);
  if (stack && run.sequence_parallel) stack->sequence_parallel = *run.sequence_parallel;
  return stack;
}

/// The duration of a step on NCCL, whose kernels start in order.
Expected<Nanoseconds> step_on_nccl(const RunDescription& run, const Workload& work) {
  PPSIM_ASSIGN_OR_RETURN(auto lowered, program_of(run, work));
  const bool launches = run.tensor > 1 || run.context > 1 || run.expert > 1;
  PPSIM_ASSIGN_OR_RETURN(const auto nccl, transport("nccl", launches));
  PPSIM_ASSIGN_OR_RETURN(const auto step,
                         evaluate(run.schedule, std::move(lowered.program), std::move(lowered.costs), nccl));
  return step.step();
}

/// The time by which the step is longer because products run beside transfers that hold multiprocessors.
Expected<Nanoseconds> added_by_held(const RunDescription& run, Workload work) {
  if (!work.stack.overlap_pipeline || run.pipeline == 1) return 0;
  work.stack.transfer_channels = 0;
  PPSIM_ASSIGN_OR_RETURN(const Nanoseconds free, step_on_nccl(run, work));
  work.stack.transfer_channels = kTransferChannels;
  PPSIM_ASSIGN_OR_RETURN(const Nanoseconds held, step_on_nccl(run, work));
  return held - free;
}

/// The time that the effects add to a step.
Expected<Nanoseconds> added_by(const RunEffects& effects, const RunDescription& run, const Workload& work,
                               const SimulatedStep& alone) {
  Nanoseconds added = 0;
  if (effects.links) {
    PPSIM_ASSIGN_OR_RETURN(const auto job, job_step(alone, work, {}));
    added = job.step - alone.step();
  }
  if (!effects.transfers) return added;
  PPSIM_ASSIGN_OR_RETURN(const Nanoseconds held, added_by_held(run, work));
  return checked_add(added, held);
}

}  // namespace

FittedConstants constants_with(const RunEffects& effects, FittedConstants constants,
                               const GpuDescription& gpu) {
  // Products lose the multiprocessors that it holds while it runs, and have full speed after it.
  if (effects.collectives && gpu.multiprocessors > 0)
    constants.exposed_share = static_cast<double>(kCollectiveChannels) / gpu.multiprocessors;
  return constants;
}

Expected<Workload> workload_of(const RunDescription& run) {
  PPSIM_ASSIGN_OR_RETURN(auto cluster, cluster_of(run));
  PPSIM_ASSIGN_OR_RETURN(auto stack, stack_of(run));
  PPSIM_ASSIGN_OR_RETURN(auto layout, layout_of(run));
  return Workload{.model = run.model,
                  .cluster = std::move(cluster),
                  .parallelism = {.tensor = run.tensor,
                                  .pipeline = run.pipeline,
                                  .data = run.data(),
                                  .context = run.context,
                                  .expert = run.expert,
                                  .microbatch_size = run.microbatch_size,
                                  .global_batch_size = run.global_batch_size,
                                  .sequence = run.sequence,
                                  .dtype = data_type_of(run.precision),
                                  .sharded_parameters = run.fsdp > 1,
                                  .recompute = run.recompute.value_or(Recompute::none)},
                  .layout = std::move(layout),
                  .stack = std::move(stack)};
}

Expected<CostedProgram> program_of(const RunDescription& run, const Workload& work) {
  return costed_program(work, run.schedule, run.chunks > 1 ? std::optional(run.chunks) : std::nullopt);
}

PipelineLayout usual_layout(std::int64_t layers, int stages) {
  PipelineLayout layout = even_layout(layers, stages);
  if (layers % stages == 0) return layout;
  const bool counts_ends = (layers + 2) % stages == 0 && stages > 1;
  const std::int64_t each = (layers + (counts_ends ? 2 : 0) + stages - 1) / stages;
  std::int64_t left = layers;
  for (StageContents& stage : layout.stages) {
    stage.layers = std::min(left, each - (counts_ends && stage.embedding ? 1 : 0));
    left -= stage.layers;
  }
  return layout;
}

Expected<SimulatedRun> simulate_run(const RunDescription& run, const FittedConstants& constants,
                                    const RunEffects& effects) {
  PPSIM_ASSIGN_OR_RETURN(auto work, workload_of(run));
  work.fitted = constants_with(effects, constants, work.cluster.gpu);
  PPSIM_ASSIGN_OR_RETURN(auto lowered, program_of(run, work));
  PPSIM_ASSIGN_OR_RETURN(const auto step,
                         evaluate(run.schedule, std::move(lowered.program), std::move(lowered.costs)));
  PPSIM_ASSIGN_OR_RETURN(const Nanoseconds added, added_by(effects, run, work, step));
  SimulatedRun result{.step_s = static_cast<double>(checked_add(step.step(), added)) * 1e-9, .allocated = {}};
  for (const auto& rank : step.metrics.ranks) result.allocated.push_back(rank.peak_bytes);
  return result;
}

}  // namespace ppsim::planner
