#include <gtest/gtest.h>

#include "ppsim/workload/analytic.hpp"
#include "support/programs.hpp"

namespace ppsim {
namespace {

double in_seconds(Nanoseconds time) { return static_cast<double>(time) * 1e-9; }

Workload mixture() {
  Workload workload;
  workload.model = model_from_name("deepseek-v3:layers=8").value();
  workload.cluster = cluster_from_name("dgx-h100", 8).value();
  workload.parallelism = {.tensor = 1, .pipeline = 4, .data = 16, .expert = 8, .global_batch_size = 1024};
  return workload;
}

/// Experts are split over tensor- and context-parallel ranks, too, and their optimizer over what replicas are
/// left.
TEST(AnalyticMixture, ExpertsAreSpreadOverTheirGroup) {
  Workload workload = mixture();
  const auto bytes = [&](TensorKind kind) {
    return static_cast<double>(analytic_costs(workload, test::chain(4, 4, 64))->tables.sizes({kind, 1}));
  };
  const double experts = 256 * 3 * 7168.0 * 2048;  // of each of its layers, of which the first is dense
  const double eight = bytes(TensorKind::parameters);
  workload.parallelism.expert = 16;
  EXPECT_NEAR(eight - bytes(TensorKind::parameters), 1 * 2 * experts / 16, 64);
  workload.parallelism.expert = 8;
  workload.parallelism.tensor = 2;
  workload.parallelism.data = 8;
  EXPECT_TRUE(analytic_costs(workload, test::chain(4, 4, 128)).has_value());
}

/// Where the stack splits experts over the tensor-parallel group, too, a GPU has a part of as many, and those
/// that share them are further apart.
TEST(AnalyticMixture, AStackMaySplitExperts) {
  Workload workload = mixture();
  workload.parallelism.tensor = 2;
  workload.parallelism.data = 8;
  const AnalyticCosts whole = analytic_costs(workload, test::chain(4, 4, 128)).value();
  workload.stack.split_experts = true;
  const AnalyticCosts split = analytic_costs(workload, test::chain(4, 4, 128)).value();
  const double experts = 2 * 2 * 256 * 3 * 7168.0 * 2048 / 8;  // bytes of two layers
  EXPECT_NEAR(static_cast<double>(whole.tables.sizes({TensorKind::parameters, 2}) -
                                  split.tables.sizes({TensorKind::parameters, 2})),
              experts / 2, 64);
  EXPECT_NEAR(static_cast<double>(whole.tables.sizes({TensorKind::optimizer_state, 2})),
              static_cast<double>(split.tables.sizes({TensorKind::optimizer_state, 2})), 64)
      << "a part of an expert on half as many replicas";
  EXPECT_GT(split.tables.costs({OpKind::forward, 2}), whole.tables.costs({OpKind::forward, 2}));
  workload.parallelism.expert = 16;
  EXPECT_FALSE(analytic_costs(workload, test::chain(4, 4, 128)).has_value()) << "16 of 8 x 2 GPUs with tp 2";
}

/// Eager kernels of experts in a step whose other kernels are in graphs.
TEST(AnalyticMixture, TheHostLaunchesExpertsThatAreInNoGraph) {
  Workload workload = mixture();
  workload.model = model_from_name("qwen3-30b-a3b:layers=8").value();
  workload.parallelism.sequence = 512;
  workload.stack.graphs = true;
  const auto forward = [&] {
    return in_seconds(analytic_costs(workload, test::chain(4, 4, 64))->tables.costs({OpKind::forward, 2}));
  };
  EXPECT_LT(forward(), 2 * 2e-3);
  workload.stack.graphed_experts = false;
  EXPECT_NEAR(forward(), 2 * 2e-3, 1e-9);
}

/// Bytes a token and layer, of the operators that have no fused kernel: 28 and 40 of each output of an expert
/// for its bias, 8 and 10 of each of its gates for the limit, 20 and 30 of queries and keys, less 4 of
/// values.
TEST(AnalyticMixture, WhatNoKernelFusesTakesItsBytes) {
  Workload workload = mixture();
  workload.model = model_from_name("gpt-oss-120b:layers=8").value();
  workload.parallelism.microbatch_size = 16;
  workload.cluster.gpu.memory_tbps = 1e-3;  // all else counts little
  workload.fitted.kernel_time = 0;
  const auto pass = [&](OpKind kind) {
    return in_seconds(analytic_costs(workload, test::chain(4, 4, 4))->tables.costs({kind, 1}));
  };
  const double bytes_a_second = workload.cluster.gpu.memory_efficiency * 1e9;
  const double tokens = 2 * 16 * 4096.0;  // of two layers
  const auto extra = [&](OpKind kind) {
    workload.stack.compiled = false;
    const double eager = pass(kind);
    workload.stack.compiled = true;
    return (eager - pass(kind)) * bytes_a_second / tokens;
  };
  const double output = 4 * 2880.0;
  const double rotated = 72 * 64.0;
  EXPECT_NEAR(extra(OpKind::forward), 28 * output + 8 * 2 * output + 20 * rotated - 4 * 8 * 64, 10);
  EXPECT_NEAR(extra(OpKind::backward_input), 40 * output + 10 * 2 * output + 30 * rotated - 4 * 8 * 64, 10);
  workload.stack.compiled = false;
  const double apart = pass(OpKind::forward);
  workload.stack.fused_experts = true;
  EXPECT_NEAR((apart - pass(OpKind::forward)) * bytes_a_second / tokens, 28 * output + (8 * 2 + 6) * output,
              10);
}

/// As fast again as the rate says, but for what is read and written for it.
TEST(AnalyticMixture, AttentionInFp8IsFaster) {
  Workload workload = mixture();
  workload.parallelism.dtype = DataType::fp8;
  workload.parallelism.sequence = 32768;
  const auto both = [&] {
    const CostTable costs = analytic_costs(workload, test::chain(4, 4, 64))->tables.costs;
    return std::pair(costs({OpKind::forward, 2}), costs({OpKind::backward, 2}));
  };
  const auto bf16 = both();
  workload.stack.quantised_attention = true;
  EXPECT_LT(both().first, bf16.first);
  EXPECT_LT(both().second, bf16.second);
  workload.parallelism.dtype = DataType::bf16;
  const auto products = both();
  workload.stack.quantised_attention = false;
  EXPECT_EQ(both(), products) << "not of a step in bf16";
}

/// Eight experts of a node have their replicas in the other nodes.
TEST(AnalyticMixture, ReplicasOfExpertsAreFarApart) {
  Workload workload = mixture();
  const auto reduction = [&] {
    return analytic_costs(workload, test::chain(4, 4, 64))->ends[RankId(1)].reduction;
  };
  const Nanoseconds fast = reduction();
  workload.cluster.node.node_gbytes = *workload.cluster.node.node_gbytes / 4;
  EXPECT_GT(in_seconds(reduction()), 3.5 * in_seconds(fast));
}

/// 2412.19437, section 3.2.1: the exchange with experts of one pass runs beside the other's computation.
TEST(AnalyticMixture, OverlappedPassesHideTheExchangeWithExperts) {
  const CostTable costs = analytic_costs(mixture(), test::chain(4, 4, 64)).value().tables.costs;
  const Nanoseconds sum = costs({OpKind::forward, 1}) + costs({OpKind::backward, 1});
  EXPECT_LT(costs({OpKind::overlap, 1, 1}), sum);
  EXPECT_GT(costs({OpKind::overlap, 1, 1}), costs({OpKind::backward, 1}));
}

/// Where the exchange is longer than computation, a pass has no more than the other's computation to hide
/// it behind: both together take no less than the exchanges of both, nor than either alone.
TEST(AnalyticMixture, OverlappedPassesHideNoMoreThanTheyCompute) {
  Workload workload = mixture();
  workload.fitted.exposed_share = 0;
  workload.parallelism.expert = 16;  // over two nodes
  const double gbytes = *workload.cluster.node.node_gbytes;
  for (const Recompute recompute : {Recompute::none, Recompute::full}) {
    workload.parallelism.recompute = recompute;
    workload.cluster.node.node_gbytes = gbytes;
    const CostTable fast = analytic_costs(workload, test::chain(4, 4, 64)).value().tables.costs;
    workload.cluster.node.node_gbytes = gbytes / 1000;
    const CostTable slow = analytic_costs(workload, test::chain(4, 4, 64)).value().tables.costs;
    const auto longer = [&](OpKind kind) { return slow({kind, 1}) - fast({kind, 1}); };
    EXPECT_GT(longer(OpKind::forward), 10 * fast({OpKind::forward, 1}));
    EXPECT_GT(slow({OpKind::overlap, 1, 1}), slow({OpKind::backward, 1}));
    EXPECT_GT(slow({OpKind::overlap, 1, 1}), longer(OpKind::forward) + longer(OpKind::backward));
  }
}

/// Whatever the factors are of: what is hidden was found before them.
TEST(AnalyticMixture, OverlappedPassesTakeTheLongerOneUnderACalibrationToo) {
  Workload workload = mixture();
  workload.fitted.exposed_share = 0;
  workload.parallelism.expert = 16;
  workload.cluster.node.node_gbytes = *workload.cluster.node.node_gbytes / 8;
  for (const std::map<OpKind, double>& factors :
       {std::map<OpKind, double>{{OpKind::backward, 5}}, {{OpKind::forward, 9}}}) {
    workload.calibration.factors = factors;
    const CostTable costs = analytic_costs(workload, test::chain(4, 4, 64)).value().tables.costs;
    EXPECT_GE(costs({OpKind::overlap, 1, 1}) + 1, costs({OpKind::forward, 1}));
    EXPECT_GE(costs({OpKind::overlap, 1, 1}) + 1, costs({OpKind::backward, 1}));
  }
}

/// The share of overlapped communication is waited for, and a pair of passes has nothing left to hide.
TEST(AnalyticMixture, AStackMayHideTheExchangeWithExperts) {
  Workload workload = mixture();
  const CostTable waited = analytic_costs(workload, test::chain(4, 4, 64)).value().tables.costs;
  workload.stack.overlap_experts = true;
  const CostTable hidden = analytic_costs(workload, test::chain(4, 4, 64)).value().tables.costs;
  const Nanoseconds forward = waited({OpKind::forward, 1}) - hidden({OpKind::forward, 1});
  EXPECT_GT(forward, 0);
  EXPECT_NEAR(static_cast<double>(waited({OpKind::backward, 1}) - hidden({OpKind::backward, 1})),
              static_cast<double>(forward), 4);
  EXPECT_EQ(hidden({OpKind::overlap, 1, 1}), hidden({OpKind::forward, 1}) + hidden({OpKind::backward, 1}));
}

/// Experts' products that make what the next one reads: no kernels between them, below bf16 none that
/// quantise either.
TEST(AnalyticMixture, AStackMayFuseWhatIsBetweenProductsOfExperts) {
  Workload workload = mixture();
  const auto forward = [&] {
    return in_seconds(analytic_costs(workload, test::chain(4, 4, 64))->tables.costs({OpKind::forward, 1}));
  };
  const double rate = workload.cluster.gpu.memory_efficiency * workload.cluster.gpu.memory_tbps * 1e12;
  const double elements = 4096.0 * 8 * 2048;  // of its second layer, the first mixture
  const double apart = forward();
  workload.stack.fused_experts = true;
  const double kernel = workload.fitted.kernel_time;
  EXPECT_NEAR(apart - forward(), elements * 6 / rate + kernel, 1e-8) << "activations read and written";
  workload.parallelism.dtype = DataType::fp8;
  const double fused = forward();
  workload.stack.fused_experts = false;
  EXPECT_NEAR(forward() - fused, elements * (6 + 4) / rate + 2 * kernel, 1e-8) << "and quantised";
}

/// 2412.19437, sections 3.2.3 and 3.3, against the stack that keeps all in bf16 that may be: what attention
/// and gates keep, and the moments.
TEST(AnalyticMixture, TheStackOfDeepSeekKeepsLess) {
  Workload workload = mixture();
  workload.parallelism.dtype = DataType::fp8;
  workload.stack.weights = workload::QuantisedWeights::primary;
  const auto bytes = [&](TensorKind kind) {
    return static_cast<double>(analytic_costs(workload, test::chain(4, 4, 64))->tables.sizes({kind, 1}));
  };
  const double saved = bytes(TensorKind::saved_for_input);
  workload.stack.quantised_gates = true;
  const double gates = 2 * 4096.0 * 2 * 9 * 2048;  // bytes of two layers: eight experts and a shared one
  EXPECT_NEAR(saved - bytes(TensorKind::saved_for_input), gates, 64);
  workload.parallelism.recompute = Recompute::selective;
  const double elementwise = bytes(TensorKind::saved_for_input);
  const CostTable before = analytic_costs(workload, test::chain(4, 4, 64)).value().tables.costs;
  workload.stack.selective = workload::SelectiveRecompute::up_projections;
  const double up = 2 * 2 * 4096.0 * (3 * 128 * 128 - (1536 + 512 + 64));
  EXPECT_NEAR(elementwise - bytes(TensorKind::saved_for_input), up, 64);
  const CostTable after = analytic_costs(workload, test::chain(4, 4, 64)).value().tables.costs;
  EXPECT_GT(after({OpKind::backward_input, 1}), before({OpKind::backward_input, 1})) << "made again";
  EXPECT_EQ(after({OpKind::backward_weight, 1}), before({OpKind::backward_weight, 1}));
  EXPECT_EQ(workload.stack.selective, stack_from_name("deepseek-v3")->selective);
}

/// With replicas innermost but for the pipeline, a group of experts is spread over all nodes.
TEST(AnalyticMixture, ExpertsFollowTheOrderOfRanks) {
  Workload workload = mixture();
  workload.parallelism.rank_order = RankOrder::tp_cp_pp_dp;
  const auto forward = [&] {
    return analytic_costs(workload, test::chain(4, 4, 64))->tables.costs({OpKind::forward, 3});
  };
  const Nanoseconds fast = forward();
  workload.cluster.node.node_gbytes = *workload.cluster.node.node_gbytes / 16;
  EXPECT_GT(forward(), fast);
  workload.parallelism.rank_order = RankOrder::tp_cp_dp_pp;
  const Nanoseconds near = forward();
  workload.cluster.node.node_gbytes = *workload.cluster.node.node_gbytes * 16;
  EXPECT_EQ(forward(), near) << "eight experts of a node take none of the network";
}

/// 12 layers a stage that all wait for the host, 3 ms forward and twice that backward: beside one another,
/// too.
TEST(AnalyticMixture, AnOverlappedPairIsNotFasterThanItsHost) {
  Workload workload = mixture();
  workload.model = model_from_name("qwen3-30b-a3b").value();
  workload.parallelism.expert = 16;
  const CostTable costs = analytic_costs(workload, test::chain(4, 4, 64)).value().tables.costs;
  EXPECT_EQ(costs({OpKind::forward, 1}), 12 * 3'000'000) << "the host's";
  EXPECT_EQ(costs({OpKind::overlap, 1, 1}), 12 * 9'000'000);
}

/// A shared expert is split over the tensor-parallel group like a dense MLP, and waits for it.
TEST(AnalyticMixture, SharedExpertsExchangeTheirTokens) {
  Workload workload = mixture();
  workload.parallelism.tensor = 4;
  workload.parallelism.data = 4;
  workload.cluster.gpu.operators.clear();
  workload.stack.overlap_tensor = false;
  const auto slower = [&](int shared) {
    workload.model.shared_experts = shared;
    const auto forward = [&](double gbytes) {
      workload.cluster.gpu.nvlink_gbytes = gbytes;
      return in_seconds(analytic_costs(workload, test::chain(4, 4, 256))->tables.costs({OpKind::forward, 3}));
    };
    return forward(45) - forward(450);
  };
  EXPECT_GT(slower(1), slower(0) * 1.2);
}

}  // namespace
}  // namespace ppsim
