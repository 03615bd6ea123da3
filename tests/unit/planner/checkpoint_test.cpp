// The cost of writing checkpoints for a step, in closed form.

#include "ppsim/planner/effects/checkpoint.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "ppsim/planner/ir_source.hpp"
#include "ppsim/workload/cluster.hpp"

namespace ppsim::checkpoint_test {
namespace {

Workload job(int nodes = 1) {
  Workload work{.model = model_from_name("llama3-8b").value(),
                .cluster = cluster_from_name("dgx-h100", nodes).value(),
                .parallelism = {.tensor = 2,
                                .pipeline = 4,
                                .data = nodes,
                                .microbatch_size = 1,
                                .global_batch_size = 8 * nodes,
                                .sequence = 2048},
                .stack = stack_from_name("megatron-core").value()};
  return work;
}

SimulatedStep step_of(const Workload& work, const std::string& schedule = "1f1b") {
  const auto ir =
      ir_from_name(schedule, {.ranks = 4, .microbatches = work.parallelism.microbatches()}, work).value();
  auto costs = bind_cost_source(work, pipeline_of(ir)).value();
  auto program = to_program(ir, {}, &costs.tables.costs).value();
  return evaluate(schedule, std::move(program), std::move(costs)).value();
}

CheckpointCost cost_of(const Workload& work, const CheckpointPlan& plan) {
  return checkpoint_cost(step_of(work), work, plan).value();
}

TEST(Checkpoint, BytesAreThoseOfMixedPrecisionAdam) {
  // arXiv 1910.02054, section 3.1: 2 bytes of weights and 12 of optimizer state a parameter.
  const CheckpointCost cost = cost_of(job(), {.storage = 1e9});
  EXPECT_EQ(cost.bytes, 14.0 * static_cast<double>(parameter_count(job().model)));
  EXPECT_NEAR(static_cast<double>(cost.write), cost.bytes, 1);
  EXPECT_GE(cost.gpu_bytes * 8, cost.bytes);  // nobody has less than the mean of all who have most
  Workload halved = job();
  halved.stack.moment_bytes = 2;
  EXPECT_EQ(cost_of(halved, {.storage = 1e9}).bytes * 14, cost.bytes * 10);
}

TEST(Checkpoint, TheSlowerOfStorageAndNodesDecides) {
  const auto write = [&](const CheckpointPlan& plan) { return cost_of(job(2), plan).write; };
  const Nanoseconds alone = write({.storage = 1e9});
  EXPECT_EQ(write({.storage = 1e9, .node_storage = 4e9}), alone);
  EXPECT_NEAR(static_cast<double>(write({.storage = 1e9, .node_storage = 0.25e9})),
              2.0 * static_cast<double>(alone), 2);
}

TEST(Checkpoint, ReplicasShareTheCopy) {
  const CheckpointCost all = cost_of(job(2), {.storage = 1e9});
  const CheckpointCost first = cost_of(job(2), {.storage = 1e9, .all_replicas = false});
  EXPECT_DOUBLE_EQ(first.gpu_bytes, 2 * all.gpu_bytes);
  EXPECT_EQ(first.bytes, all.bytes);
  EXPECT_EQ(all.writing_nodes, 2);
}

/// Four nodes with eight experts a layer.
Workload mixture(int expert) {
  Workload work = job(4);
  work.model = model_from_name("mixtral-8x7b").value();
  work.parallelism.tensor = 1;
  work.parallelism.data = 8;
  work.parallelism.expert = expert;
  return work;
}

TEST(Checkpoint, ExpertParallelismLeavesEveryGpuItsPart) {
  const CheckpointCost together = cost_of(mixture(1), {.storage = 1e9});
  EXPECT_NEAR(together.gpu_bytes * 32, together.bytes, 0.01 * together.bytes);
  for (const int expert : {2, 4, 8}) {
    const CheckpointCost apart = cost_of(mixture(expert), {.storage = 1e9});
    EXPECT_NEAR(apart.gpu_bytes, together.gpu_bytes, 1) << expert;
    EXPECT_EQ(apart.bytes, together.bytes);
  }
}

TEST(Checkpoint, GpusThatShareExpertsWriteThemWhereOneReplicaWrites) {
  const CheckpointPlan plan{.storage = 1e9, .all_replicas = false};
  const ModelDescription model = mixture(1).model;
  const double experts = 8.0 * 14 * static_cast<double>(mlp_parameters(model, model.moe_ffn)) *
                         static_cast<double>(model.experts);
  const CheckpointCost together = cost_of(mixture(1), plan);
  const CheckpointCost apart = cost_of(mixture(8), plan);
  // A stage has 8 layers, and of each an eighth of the experts stays. Norms behind the last layer are in no
  // stage.
  EXPECT_NEAR(together.gpu_bytes - apart.gpu_bytes, experts * 7 / 8, 1e-6 * experts);
  EXPECT_EQ(apart.bytes, together.bytes);
  EXPECT_EQ(apart.writing_nodes, 4);
  Workload close = mixture(1);
  close.parallelism.rank_order = RankOrder::tp_cp_pp_dp;
  EXPECT_EQ(cost_of(close, plan).writing_nodes, 1);
  close.parallelism.expert = 4;  // two replicas of each stage are on a node
  EXPECT_EQ(cost_of(close, plan).writing_nodes, 2);
}

TEST(Checkpoint, ContextRanksOfTheFirstReplicaDoNotWrite) {
  Workload work = job(8);
  work.parallelism.tensor = 8;
  work.parallelism.context = 2;
  work.parallelism.data = 1;
  for (const RankOrder order : {RankOrder::tp_cp_dp_pp, RankOrder::tp_cp_pp_dp}) {
    work.parallelism.rank_order = order;
    EXPECT_EQ(cost_of(work, {.storage = 1e9, .all_replicas = false}).writing_nodes, 4);
    EXPECT_EQ(cost_of(work, {.storage = 1e9}).writing_nodes, 8);
  }
}

TEST(Checkpoint, RanksThatHoldTheSameStageShareIt) {
  const Workload work = job(2);
  for (const bool all : {true, false}) {
    const CheckpointPlan plan{.storage = 1e9, .all_replicas = all};
    const double once = cost_of(work, plan).gpu_bytes;
    for (const std::string name : {"chimera", "dualpipe"}) {
      const CheckpointCost twice = checkpoint_cost(step_of(work, name), work, plan).value();
      EXPECT_LE(twice.gpu_bytes, once) << name;  // the first stage is shared with the last, and so on
      EXPECT_GE(twice.gpu_bytes, 0.8 * once) << name;
    }
  }
}

TEST(Checkpoint, TrainingWaitsForTheCopyAloneUntilStorageIsLate) {
  const Workload work = job();
  const SimulatedStep step = step_of(work);
  const CheckpointCost cost = checkpoint_cost(step, work, {.storage = 1e9, .steps = 1000}).value();
  EXPECT_EQ(cost.together.each, cost.copy + cost.write);
  EXPECT_EQ(cost.beside.each, cost.copy);
  EXPECT_DOUBLE_EQ(cost.together.a_step * 1000, static_cast<double>(cost.together.each));
  const CheckpointCost late = checkpoint_cost(step, work, {.storage = 1e9, .steps = 1}).value();
  EXPECT_EQ(late.beside.each, late.copy + late.write - step.step());
}

TEST(Checkpoint, TheBestIntervalIsYoungs) {
  // CACM 17 (1974): the root of twice the wait times the time between failures.
  const Workload work = job();
  const SimulatedStep step = step_of(work);
  const CheckpointCost cost =
      checkpoint_cost(step, work, {.storage = 1e9, .mean_time_between_failures = 7200}).value();
  const double wait = static_cast<double>(cost.together.each) * 1e-9;
  EXPECT_NEAR(*cost.together.best_steps,
              std::sqrt(2 * wait * 7200) / (static_cast<double>(step.step()) * 1e-9), 1e-6);
  // Copies alone may come sooner than storage is done.
  EXPECT_GE(*cost.beside.best_steps * static_cast<double>(step.step()), static_cast<double>(cost.write));
}

TEST(Checkpoint, WhatCannotBeIsRefused) {
  const Workload work = job();
  const SimulatedStep step = step_of(work);
  for (const CheckpointPlan& plan : {CheckpointPlan{}, CheckpointPlan{.storage = 1e9, .node_storage = 0},
                                     CheckpointPlan{.storage = 1e9, .steps = 0},
                                     CheckpointPlan{.storage = 1e9, .mean_time_between_failures = 0}})
    EXPECT_EQ(checkpoint_cost(step, work, plan).error().code, ErrorCode::bad_argument);
}

}  // namespace
}  // namespace ppsim::checkpoint_test
