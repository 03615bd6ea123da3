#include "step_end.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include "analytic_work.hpp"
#include "operators/constants.hpp"
#include "ppsim/core/ir/overflow.hpp"

namespace ppsim::workload {
namespace {

/// A collective over parameters, and the bytes of each.
struct ParameterBytes {
  CollectiveKind kind;
  double bytes;
};

/// A collective over the replicas of every parameter. Copies of a stage on other
/// pipeline ranks are replicas that NVLink does not connect.
double over_replicas(const Network& network, int split, const RankParameters& rank,
                     const ParameterBytes& moved) {
  RankGroup dense = network.replicas();
  RankGroup experts = network.expert_replicas(split);
  for (RankGroup* group : {&dense, &experts}) {
    group->members *= rank.copies;
    group->domains *= rank.copies;
  }
  return network.collective(moved.kind, dense, moved.bytes * rank.dense) +
         network.collective(moved.kind, experts, moved.bytes * rank.expert);
}

/// The first and the last rank of a pipeline sum the gradients of the embedding that both hold.
double tied_reduction(const Workload& workload, const Network& network) {
  const Parallelism& parallelism = workload.parallelism;
  const bool near = parallelism.gpus() <= workload.cluster.job_domain();
  const double parameters =
      static_cast<double>(workload.model.vocab * workload.model.hidden) / parallelism.tensor;
  return network.collective(CollectiveKind::all_reduce, {2, near ? 2 : 1, near ? 1 : 2},
                            workload.stack.gradient_bytes * parameters);
}

/// Each block once for every pipeline rank that has a stage of it.
std::set<std::pair<RankId, BlockId>> holdings(const Pipeline& pipeline) {
  std::set<std::pair<RankId, BlockId>> held;
  for (const StageId stage : pipeline.stage_ids()) {
    for (const BlockId block : pipeline.blocks_of(stage)) held.emplace(pipeline.rank_of(stage), block);
  }
  return held;
}

}  // namespace

void count_copies(const Pipeline& pipeline, BlockParameters& blocks) {
  for (auto& [block, parameters] : blocks) parameters.copies = 0;
  for (const auto& [rank, block] : holdings(pipeline)) {
    if (const auto found = blocks.find(block); found != blocks.end()) ++found->second.copies;
  }
}

IdVector<RankId, StepEnd> step_ends(const Workload& workload, const LayerTimer& timer,
                                    const Pipeline& pipeline, const BlockParameters& blocks) {
  IdVector<RankId, RankParameters> ranks(as_size(pipeline.ranks()));
  for (const auto& [rank, block] : holdings(pipeline)) {
    const auto found = blocks.find(block);
    if (found == blocks.end()) continue;
    ranks[rank].dense += found->second.dense;
    ranks[rank].expert += found->second.expert;
    ranks[rank].tied = ranks[rank].tied || found->second.tied;
    ranks[rank].copies = std::max(ranks[rank].copies, found->second.copies);
  }
  IdVector<RankId, StepEnd> ends;
  for (const RankParameters& rank : ranks) ends.push_back(step_end(workload, timer, rank));
  return ends;
}

double replicas(const Parallelism& parallelism) {
  return static_cast<double>(parallelism.data) * parallelism.context;
}

double expert_replicas(const Workload& workload) {
  const Parallelism& parallelism = workload.parallelism;
  if (parallelism.expert == 1) return replicas(parallelism);
  return replicas(parallelism) * parallelism.tensor / (parallelism.expert * expert_split(workload));
}

StepEnd step_end(const Workload& workload, const LayerTimer& timer, const RankParameters& rank) {
  const Parallelism& parallelism = workload.parallelism;
  const SoftwareStack& stack = workload.stack;
  const bool sharded = stack.sharded_optimizer || parallelism.sharded_parameters;
  const double exposed = stack.overlap_data ? workload.fitted.exposed_share : 1;
  const CollectiveKind sum = sharded ? CollectiveKind::reduce_scatter : CollectiveKind::all_reduce;
  const auto exchanged = [&](CollectiveKind kind, double bytes) {
    return exposed * over_replicas(timer.network(), expert_split(workload), rank, {kind, bytes});
  };
  double reduction = exchanged(sum, stack.gradient_bytes);
  double gather = sharded ? exchanged(CollectiveKind::all_gather, kBf16) : 0;
  if (parallelism.sharded_parameters) {
    // Every microbatch gathers parameters forward and backward, and reduces its gradients.
    reduction = parallelism.microbatches() * (reduction + 2 * gather);
    gather = 0;
  }
  if (rank.tied) reduction += tied_reduction(workload, timer.network());
  const double own = sharded ? rank.dense / replicas(parallelism) + rank.expert / expert_replicas(workload)
                             : rank.dense + rank.expert;
  const double update = gather + timer.operators().stream(kOptimizerTraffic * own);
  return {checked_round(reduction * 1e9), checked_round(update * 1e9)};
}

}  // namespace ppsim::workload
