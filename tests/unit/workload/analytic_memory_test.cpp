#include <gtest/gtest.h>

#include <utility>

#include "support/llama.hpp"
#include "support/programs.hpp"

namespace ppsim {
namespace {

using test::llama;

/// 2205.05198, section 5: scores are made again from queries and keys, 5 bytes of each.
TEST(Analytic, UnfusedStacksDoNotKeepTheScoresOfSelectiveRecompute) {
  Workload workload = llama();
  workload.stack = stack_from_name("megatron-2022").value();
  const auto saved = [&] {
    return analytic_costs(workload, test::chain(4, 4, 64))->tables.sizes({TensorKind::saved_for_input, 1});
  };
  const Bytes all = saved();
  workload.parallelism.recompute = Recompute::selective;
  EXPECT_EQ(all - saved(), 20 * 5 * (64 / 8) * 8192LL * 8192);
}

/// Parameters that are sharded too: a part of each on every replica.
TEST(Analytic, ShardedParametersTakeTheirShare) {
  Workload workload = llama();
  const auto bytes = [&](TensorKind kind) {
    return analytic_costs(workload, test::chain(4, 4, 64))->tables.sizes({kind, 1});
  };
  const Bytes parameters = bytes(TensorKind::parameters);
  const Bytes state = bytes(TensorKind::optimizer_state);
  workload.parallelism.sharded_parameters = true;
  EXPECT_EQ(bytes(TensorKind::parameters), parameters / 2);
  EXPECT_EQ(bytes(TensorKind::optimizer_state), state);
}

/// With TP8 a rank has a head of keys and values, whether it is its own or one that all ranks have.
TEST(Analytic, FewHeadsOfKeysAndValuesAreWholeOnEachRank) {
  Workload workload = llama();
  workload.parallelism.tensor = 8;
  workload.model.kv_heads = 8;
  const auto own = analytic_costs(workload, test::chain(4, 4, 64));
  workload.model.kv_heads = 1;
  const auto shared = analytic_costs(workload, test::chain(4, 4, 64));
  ASSERT_TRUE(own && shared);
  EXPECT_EQ(own->tables, shared->tables);
  workload.model.kv_heads = 16;
  EXPECT_NE(own->tables, analytic_costs(workload, test::chain(4, 4, 64))->tables);
}

/// Moments of Adam in bf16, beside float32 weights.
TEST(Analytic, MomentsMayBeShort) {
  Workload workload = llama();
  const auto state = [&] {
    return analytic_costs(workload, test::chain(4, 4, 64))->tables.sizes({TensorKind::optimizer_state, 1});
  };
  const Bytes full = state();
  workload.stack.moment_bytes = 2;
  EXPECT_NEAR(static_cast<double>(state()), static_cast<double>(full) * 8 / 12, 1);
}

/// Weights of layers for a product and for that with the transpose: beside those in bf16, instead of them, or
/// for one microbatch.
TEST(Analytic, QuantisedWeightsAreKeptAsTheStackDoes) {
  Workload workload = llama();
  const auto parameters = [&] {
    return analytic_costs(workload, test::chain(4, 4, 64))->tables.sizes({TensorKind::parameters, 1});
  };
  const auto forward = [&] {
    return analytic_costs(workload, test::chain(4, 4, 64))->tables.costs({OpKind::forward, 1});
  };
  const Bytes bf16 = parameters();
  workload.parallelism.dtype = DataType::fp8;
  EXPECT_EQ(parameters(), 2 * bf16);
  const Nanoseconds kept = forward();
  workload.stack.weights = workload::QuantisedWeights::primary;
  EXPECT_EQ(parameters(), bf16);
  workload.stack.weights = workload::QuantisedWeights::transient;
  EXPECT_EQ(parameters(), bf16);
  EXPECT_GT(forward(), kept) << "quantised again";
  workload.stack.weights = workload::QuantisedWeights::cached;
  workload.parallelism.sharded_parameters = true;
  EXPECT_EQ(parameters(), bf16 / 2);
}

/// Inputs of products are kept as FP8; what norms, activation functions and attention need stays bf16.
TEST(Analytic, QuantisedInputsTakeHalf) {
  Workload workload = llama();
  workload.parallelism.sequence = 4096;
  const auto bytes = [&](TensorKind kind) {
    return analytic_costs(workload, test::chain(4, 4, 64))->tables.sizes({kind, 1});
  };
  const Bytes for_weight = bytes(TensorKind::saved_for_weight);
  const Bytes for_input = bytes(TensorKind::saved_for_input);
  workload.parallelism.dtype = DataType::fp8;
  EXPECT_EQ(bytes(TensorKind::saved_for_weight), for_weight / 2);
  EXPECT_EQ(bytes(TensorKind::saved_for_input) - for_input, 20 * 2 * 4096 * 8192 / 8) << "attention's output";
}

TEST(Analytic, ParametersAreSharedOut) {
  const auto sizes = analytic_costs(llama(), test::chain(4, 4, 64)).value().tables.sizes;
  Bytes parameters = 0;
  for (int b = 0; b < 4; ++b) parameters += sizes({TensorKind::parameters, b});
  EXPECT_NEAR(static_cast<double>(parameters) * 8 / 2 / 1e9, 70.55, 0.01);
  EXPECT_EQ(sizes({TensorKind::optimizer_state, 1}), sizes({TensorKind::parameters, 1}) * 6 / 2);
}

TEST(Analytic, AStageReceivesATensorForEveryEdge) {
  PipelineSpec skip{.ranks = 4, .stages = 4, .microbatches = 64};
  for (const auto& [from, to] : {std::pair{0, 1}, {1, 2}, {2, 3}, {0, 3}}) {
    skip.edges.push_back({StageId(from), StageId(to)});
  }
  const auto sizes = analytic_costs(llama(), Pipeline::make(skip).value()).value().tables.sizes;
  EXPECT_EQ(sizes({TensorKind::boundary_input, 3}), 2 * sizes({TensorKind::boundary_output, 2}));
  EXPECT_EQ(sizes({TensorKind::boundary_input, 2}), sizes({TensorKind::boundary_output, 1}));
}

/// Every tensor-parallel rank has the ids of all tokens of its share of the sequence.
TEST(Analytic, TheFirstStageReadsTokens) {
  Workload workload = llama();
  workload.parallelism.microbatch_size = 3;
  workload.parallelism.global_batch_size = 384;
  for (const auto& pipeline : {test::chain(4, 4, 64), test::chain(4, 8, 64)}) {
    const auto sizes = analytic_costs(workload, pipeline).value().tables.sizes;
    EXPECT_EQ(sizes({TensorKind::boundary_input, 0}), 3 * 8192 * 4);
    EXPECT_EQ(sizes({TensorKind::boundary_input, 1}), 3 * 8192 * 8192 * 2 / 8);
  }
}

/// Llama 3 70B, 20 layers a stage: norms and the activation function save 2 h + ffn channels a token and
/// layer.
TEST(Analytic, SelectiveRecomputeSavesLessAndTakesLonger) {
  Workload workload = llama();
  workload.parallelism.recompute = StageRecompute({{StageId(1), Recompute::selective}});
  const auto costs = analytic_costs(workload, test::chain(4, 4, 64)).value().tables;
  const auto plain = analytic_costs(llama(), test::chain(4, 4, 64)).value().tables;
  const SizeClass saved{TensorKind::saved_for_weight, 1};
  const Bytes less = 20 * 2 * 8192LL * (2 * 8192 + 28672) / 8;
  EXPECT_EQ(plain.sizes(saved) - costs.sizes(saved), less);
  // Beside it are the products that return what they have added to the main gradients.
  const Bytes products = 2 * (layer_parameters(workload.model, 0) / 8);
  EXPECT_EQ(costs.sizes({TensorKind::workspace, 1, -1, -1, OpKind::backward_weight}), less + products);
  EXPECT_GT(costs.costs({OpKind::backward_weight, 1}), plain.costs({OpKind::backward_weight, 1}));
  EXPECT_EQ(costs.costs({OpKind::forward, 1}), plain.costs({OpKind::forward, 1}));
  for (const OpKind kind : {OpKind::backward_weight, OpKind::backward})
    EXPECT_EQ(costs.costs({kind, 2}), plain.costs({kind, 2})) << "stage 2 recomputes nothing";
}

}  // namespace
}  // namespace ppsim
