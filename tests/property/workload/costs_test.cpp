// Quantities that --model conserves, and times that cannot become shorter.

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "ppsim/workload/analytic.hpp"
#include "support/programs.hpp"

namespace ppsim {
namespace {

constexpr Nanoseconds kRounding = 6;  // of F, I and W of two stages

/// One of dense models and mixtures on nodes of H100 or B200, with 8 GPUs for every pipeline rank.
Workload random_workload(int pipeline) {
  const std::string model =
      *rc::gen::element<std::string>("llama3-8b", "gpt3-175b", "mixtral-8x7b", "deepseek-v3");
  const std::string layers = std::to_string(8 * *rc::gen::inRange(1, 4));
  Workload workload;
  workload.model = model_from_name(model + ":layers=" + layers).value();
  workload.cluster =
      cluster_from_name(*rc::gen::element<std::string>("dgx-h100", "dgx-b200"), pipeline).value();
  const int tensor = *rc::gen::element(1, 2, 4, 8);
  Parallelism& parallelism = workload.parallelism;
  parallelism = {.tensor = tensor, .pipeline = pipeline, .data = 8 / tensor, .sequence = 4096};
  parallelism.expert = workload.model.experts > 0 ? *rc::gen::element(1, 8) : 1;
  parallelism.microbatch_size = *rc::gen::element(1, 2, 4);
  parallelism.global_batch_size = parallelism.data * parallelism.microbatch_size * 8;
  const auto stacks = stack_presets();
  workload.stack = stacks[*rc::gen::inRange<std::size_t>(0, stacks.size())];
  workload.stack.split_experts = false;
  workload.stack.overlap_pipeline = true;                 // else transfers are time of the stages
  workload.stack.inputs = workload::InputCopies::pinned;  // of a broadcast every stage has one
  return workload;
}

/// Time of all stages of one microbatch, forward and backward.
Nanoseconds passes(const AnalyticCosts& costs, int stages) {
  Nanoseconds sum = 0;
  for (int s = 0; s < stages; ++s)
    sum += costs.tables.costs({OpKind::forward, s}) + costs.tables.costs({OpKind::backward, s});
  return sum;
}

Bytes state(const AnalyticCosts& costs, TensorKind kind, int stages) {
  Bytes sum = 0;
  for (int s = 0; s < stages; ++s) sum += costs.tables.sizes({kind, s});
  return sum;
}

AnalyticCosts priced(const Workload& workload, int stages = 1) {
  const auto costs = analytic_costs(
      workload, test::chain(workload.parallelism.pipeline, stages, workload.parallelism.microbatches()));
  RC_ASSERT(costs.has_value());
  return *costs;
}

RC_GTEST_PROP(ModelCosts, SplittingAModelOverStagesKeepsItsWork, ()) {
  const Workload workload = random_workload(1);
  const AnalyticCosts whole = priced(workload);
  const int stages = *rc::gen::element(2, 4, 8);
  const AnalyticCosts parts = priced(workload, stages);
  RC_ASSERT(std::abs(passes(whole, 1) - passes(parts, stages)) <= 4 * stages);
  // Of a tied embedding its last stage has a copy.
  if (!workload.model.tied_embeddings) {
    for (const TensorKind kind : {TensorKind::parameters, TensorKind::gradients, TensorKind::optimizer_state})
      RC_ASSERT(std::abs(state(whole, kind, 1) - state(parts, kind, stages)) <= stages);
  }
}

RC_GTEST_PROP(ModelCosts, ShardsOfTheOptimizerAddUpToTheWhole, ()) {
  Workload workload = random_workload(1);
  workload.parallelism.expert = 1;
  workload.stack.sharded_optimizer = false;
  const double whole = static_cast<double>(state(priced(workload), TensorKind::optimizer_state, 1));
  workload.stack.sharded_optimizer = true;
  const double part = static_cast<double>(state(priced(workload), TensorKind::optimizer_state, 1));
  RC_ASSERT(std::abs(part * workload.parallelism.data - whole) <= workload.parallelism.data);
}

RC_GTEST_PROP(ModelCosts, NothingGetsFasterWithMoreToDo, ()) {
  const Workload workload = random_workload(1);
  const AnalyticCosts costs = priced(workload);
  Workload more = workload;
  more.model.layers += 1;
  RC_ASSERT(passes(priced(more), 1) > passes(costs, 1));
  more = workload;
  more.parallelism.microbatch_size *= 2;
  more.parallelism.global_batch_size *= 2;
  RC_ASSERT(passes(priced(more), 1) > passes(costs, 1));
  more = workload;
  more.model.vocab *= 2;
  RC_ASSERT(passes(priced(more), 1) > passes(costs, 1));
}

RC_GTEST_PROP(ModelCosts, NothingGetsFasterOnAWorseMachine, ()) {
  const Workload workload = random_workload(2);
  const AnalyticCosts costs = priced(workload, 2);
  const auto is_no_faster = [&](const Workload& worse) {
    const AnalyticCosts other = priced(worse, 2);
    RC_ASSERT(passes(other, 2) + kRounding >= passes(costs, 2));
    for (const RankId rank : {RankId(0), RankId(1)}) {
      RC_ASSERT(other.ends[rank].reduction >= costs.ends[rank].reduction);
      RC_ASSERT(other.ends[rank].update >= costs.ends[rank].update);
    }
  };
  Workload worse = workload;
  worse.cluster.node.node_gbytes = *worse.cluster.node.node_gbytes / 2;
  is_no_faster(worse);
  worse = workload;
  worse.cluster.gpu.memory_tbps /= 2;
  is_no_faster(worse);
  worse = workload;
  worse.fitted.product_slowdown *= 1.1;
  worse.fitted.kernel_time *= 2;
  worse.fitted.exposed_share = 1;
  is_no_faster(worse);
}

}  // namespace
}  // namespace ppsim
