#include "step_end.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include "analytic_work.hpp"
#include "operators/constants.hpp"
#include "ppsim/core/ir/overflow.hpp"

namespace ppsim::workload {
namespace {

/// A collective over the replicas of every parameter. `bytes` of one parameter. Copies of a stage on other
/// pipeline ranks are replicas that NVLink does not connect.
double over_replicas(const Network& network, const RankParameters& rank, CollectiveKind kind, double bytes) {
  RankGroup dense = network.replicas();
  RankGroup experts = network.expert_replicas();
  dense.members *= rank.copies;
  experts.members *= rank.copies;
  return network.collective(kind, dense, bytes * rank.dense) +
         network.collective(kind, experts, bytes * rank.expert);
}

/// The first and the last rank of a pipeline sum the gradients of the embedding that both hold.
double tied_reduction(const Workload& workload, const Network& network) {
  const Parallelism& spread = workload.parallelism;
  const bool near = spread.gpus() <= workload.cluster.node.nvlink_domain;
  const double parameters = static_cast<double>(workload.model.vocab * workload.model.hidden) / spread.tensor;
  return network.collective(CollectiveKind::all_reduce, {2, near ? 2 : 1},
                            workload.stack.gradient_bytes * parameters);
}

/// Each block once for every pipeline rank that has a stage of it.
std::set<std::pair<RankId, BlockId>> holdings(const Pipeline& pipeline) {
  std::set<std::pair<RankId, BlockId>> held;
  for (std::int32_t s = 0; s < pipeline.stages(); ++s) {
    for (const BlockId block : pipeline.blocks_of(StageId(s)))
      held.emplace(pipeline.rank_of(StageId(s)), block);
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
  IdVector<RankId, RankParameters> ranks(static_cast<std::size_t>(pipeline.ranks()));
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

double replicas(const Parallelism& spread) { return static_cast<double>(spread.data) * spread.context; }

double expert_replicas(const Parallelism& spread) {
  return spread.expert > 1 ? replicas(spread) * spread.tensor / spread.expert : replicas(spread);
}

StepEnd step_end(const Workload& workload, const LayerTimer& timer, const RankParameters& rank) {
  const Parallelism& spread = workload.parallelism;
  const SoftwareStack& stack = workload.stack;
  const bool sharded = stack.sharded_optimizer || spread.sharded_parameters;
  const double exposed = stack.overlap_data ? kExposedShare : 1;
  const CollectiveKind sum = sharded ? CollectiveKind::reduce_scatter : CollectiveKind::all_reduce;
  double reduction = exposed * over_replicas(timer.network(), rank, sum, stack.gradient_bytes);
  double gather =
      sharded ? exposed * over_replicas(timer.network(), rank, CollectiveKind::all_gather, kBf16) : 0;
  if (spread.sharded_parameters) {
    // Every microbatch gathers parameters forward and backward, and reduces its gradients.
    reduction = spread.microbatches() * (reduction + 2 * gather);
    gather = 0;
  }
  if (rank.tied) reduction += tied_reduction(workload, timer.network());
  const double own = sharded ? rank.dense / replicas(spread) + rank.expert / expert_replicas(spread)
                             : rank.dense + rank.expert;
  const double update = gather + timer.operators().stream(kOptimizerTraffic * own);
  return {checked_round(reduction * 1e9), checked_round(update * 1e9)};
}

}  // namespace ppsim::workload
