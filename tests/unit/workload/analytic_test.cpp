#include "ppsim/workload/analytic.hpp"

#include <gtest/gtest.h>

#include <set>
#include <utility>
#include <vector>

#include "support/programs.hpp"

namespace ppsim {
namespace {

Workload llama() {
  return {model_from_name("llama3-70b").value(), cluster_from_name("dgx-h100", 8).value(),
          Parallelism{.tensor = 8, .pipeline = 4, .data = 2, .global_batch_size = 128}};
}

Nanoseconds total(const AnalyticCosts& costs, OpKind kind, int stages) {
  Nanoseconds sum = 0;
  for (int s = 0; s < stages; ++s) sum += costs.tables.costs({kind, s});
  return sum;
}

TEST(Analytic, SplittingStagesKeepsTheWork) {
  const auto four = analytic_costs(llama(), test::chain(4, 4, 64)).value();
  const auto sixteen = analytic_costs(llama(), test::chain(4, 16, 64)).value();
  for (const OpKind kind : {OpKind::forward, OpKind::backward, OpKind::backward_weight}) {
    EXPECT_NEAR(static_cast<double>(total(four, kind, 4)), static_cast<double>(total(sixteen, kind, 16)),
                16.0);
  }
}

TEST(Analytic, BackwardIsItsTwoHalves) {
  const auto costs = analytic_costs(llama(), test::chain(4, 4, 64)).value().tables.costs;
  for (int s = 0; s < 4; ++s) {
    EXPECT_EQ(costs({OpKind::backward, s}),
              costs({OpKind::backward_input, s}) + costs({OpKind::backward_weight, s}));
    EXPECT_EQ(costs({OpKind::recompute, s}), costs({OpKind::forward, s}));
  }
  EXPECT_GT(costs({OpKind::forward, 3}), costs({OpKind::forward, 1})) << "the head costs something";
}

/// A GPU of which nothing was measured, without fixed costs that matter: what is left is arithmetic.
Workload on_paper() {
  Workload workload = llama();
  GpuDescription& gpu = workload.cluster.gpu;
  gpu.operators.clear();
  gpu.sustained_tflops = 0;
  gpu.memory_tbps = 1e9;
  gpu.nvlink_gbytes = 1e9;
  workload.stack.graphs = true;
  return workload;
}

double seconds(Nanoseconds time) { return static_cast<double>(time) * 1e-9; }

/// Flash kernels compute the tiles of 128 keys that the window and its end are in; a model's operations are
/// those of the window alone.
TEST(Analytic, AWindowCutsAttention) {
  Workload workload = on_paper();
  const auto costs = [&] { return analytic_costs(workload, test::chain(4, 4, 64)).value(); };
  const auto forward = [&] { return seconds(costs().tables.costs({OpKind::forward, 1})); };
  const double whole = forward();
  const double operations = costs().model_flops_per_step;
  workload.model.window = 1024;
  const double reach = 1024 + 128;
  const double skipped = 8192.0 * 8192 / 2 - reach * (8192 - reach / 2);
  const double rate = 0.6 * workload.cluster.gpu.bf16_achievable_tflops * 1e12;
  const double saved = 20 * 4 * 8192 * skipped / 8 / rate;  // eight of 64 heads of 128 channels
  EXPECT_NEAR(whole - forward(), saved, 1e-3 * saved);
  const double less = 3 * 80 * 4 * 8192 * (8192.0 * 8192 / 2 - 1024 * (8192 - 512.0)) * 128;
  EXPECT_NEAR(operations - costs().model_flops_per_step, less, 1e-6 * less);
  workload.model.full_attention_every = 4;
  EXPECT_NEAR(whole - forward(), 0.75 * saved, 1e-3 * saved);
  workload.stack.attention = workload::AttentionKernel::unfused;
  const double masked = forward();
  workload.model.window = 0;
  EXPECT_EQ(forward(), masked) << "a mask hides scores that are computed";
}

/// Products of 20 layers: 2 x parameters x tokens, forward, and as much for each of the two gradients. Causal
/// attention has 2 s^2 h operations, runs at 0.6 of the rate of products, and takes 2.5 / 0.8 as long
/// backward. All else here is kernels' own time: less than 40 of 2 microseconds a layer and direction.
TEST(Analytic, PassesAreTheirProductsAndAttention) {
  for (const int tensor : {1, 2, 8}) {
    Workload workload = on_paper();
    workload.parallelism = {.tensor = tensor, .pipeline = 4, .data = 16 / tensor, .global_batch_size = 128};
    const CostTable costs = analytic_costs(workload, test::chain(4, 4, 64)).value().tables.costs;
    const double rate = workload.cluster.gpu.bf16_achievable_tflops * 1e12;
    const double parameters = 8192.0 * (8192 * 2 + 2 * 1024) + 3.0 * 8192 * 28672;
    const double products = 20 * 2 * parameters * 8192 / tensor / rate;
    const double attention = 20 * 2.0 * 8192 * 8192 * 8192 / tensor / (0.6 * rate);
    const double kernels = 20 * 40 * 2e-6;
    const auto expect = [&](OpKind kind, double least) {
      const double time = seconds(costs({kind, 1}));
      EXPECT_GE(time, least * (1 - 1e-9)) << "tp " << tensor;
      EXPECT_LE(time, least + kernels) << "tp " << tensor;
    };
    expect(OpKind::forward, products + attention);
    expect(OpKind::backward_input, products + 2.5 / 0.8 * attention);
    expect(OpKind::backward_weight, products);
  }
}

/// All-gathers and reduce-scatters, two each, of what the other ranks have of a layer's hidden states; but
/// for a share they are hidden.
TEST(Analytic, ForwardWaitsForItsTensorParallelCollectives) {
  Workload workload = on_paper();
  const auto forward = [&] {
    return seconds(analytic_costs(workload, test::chain(4, 4, 64))->tables.costs({OpKind::forward, 1}));
  };
  workload.cluster.gpu.nvlink_gbytes = 400;
  const double fast = forward();
  workload.cluster.gpu.nvlink_gbytes = 200;
  const double once = 20 * 4 * (2.0 * 8192 * 8192 * 7 / 8) / (0.8 * 400e9);
  EXPECT_NEAR(forward() - fast, workload.fitted.exposed_share * once, 1e-8);
  workload.stack.overlap_tensor = false;
  const double slow = forward();
  workload.cluster.gpu.nvlink_gbytes = 400;
  EXPECT_NEAR(slow - forward(), once, 1e-8);
}

/// What a stack lets block is part of the action that sends, and none of the transfer.
TEST(Analytic, BlockingTransfersAreTimeOfTheirSender) {
  Workload workload = llama();
  const CostTable beside = analytic_costs(workload, test::chain(4, 4, 64)).value().tables.costs;
  workload.stack.overlap_pipeline = false;
  const CostTable blocking = analytic_costs(workload, test::chain(4, 4, 64)).value().tables.costs;
  const Nanoseconds transfer = beside({OpKind::send_forward, 0, 1});
  EXPECT_GT(transfer, 0);
  EXPECT_EQ(blocking({OpKind::send_forward, 0, 1}), 0);
  EXPECT_EQ(blocking({OpKind::forward, 0}), beside({OpKind::forward, 0}) + transfer);
  EXPECT_EQ(blocking({OpKind::backward, 1}), beside({OpKind::backward, 1}) + transfer);
  EXPECT_EQ(blocking({OpKind::forward, 3}), beside({OpKind::forward, 3})) << "the last stage sends nothing";
  EXPECT_EQ(blocking({OpKind::backward, 0}), beside({OpKind::backward, 0})) << "nor the first one backward";
}

/// Unfused attention writes and reads 13 bytes for each score forward.
TEST(Analytic, UnfusedAttentionGoesThroughMemory) {
  Workload workload = on_paper();
  workload.cluster.gpu.memory_tbps = 1;
  workload.stack.attention = workload::AttentionKernel::unfused;
  const auto forward = [&] {
    return seconds(analytic_costs(workload, test::chain(4, 4, 64))->tables.costs({OpKind::forward, 1}));
  };
  const double unfused = forward();
  workload.stack.attention = workload::AttentionKernel::flash;
  const double scores = 20 * 8.0 * 8192 * 8192;
  EXPECT_GT(unfused - forward(), scores * 13 / 0.85e12) << "and all of its products, not half";
}

/// Weights are reduced and gathered by the data-parallel ranks of a stage, and updated where the optimizer
/// is.
TEST(Analytic, TheStepEndsWithGradientsAndOptimizer) {
  Workload workload = on_paper();
  workload.cluster.gpu.memory_tbps = 1;
  workload.stack.overlap_data = false;
  const AnalyticCosts costs = analytic_costs(workload, test::chain(4, 4, 64)).value();
  const double parameters = static_cast<double>(costs.tables.sizes({TensorKind::parameters, 1})) / 2;
  // Two replicas, each GPU with a link of 50 GB/s into the network.
  const double links = workload.fitted.network_efficiency * 50e9;
  EXPECT_NEAR(seconds(costs.ends[RankId(1)].reduction), 4 * parameters / 2 / links + 4 * 10e-6, 1e-6);
  EXPECT_NEAR(seconds(costs.ends[RankId(1)].update),
              2 * parameters / 2 / links + 4 * 10e-6 + 50 * parameters / 2 / 1e12, 1e-6);
  EXPECT_EQ(costs.tables.costs({OpKind::optimizer, 1}), costs.ends[RankId(1)].update);
  EXPECT_EQ(costs.tables.costs({OpKind::reduce_grad, 1}), costs.ends[RankId(1)].reduction);
}

/// Two pipeline ranks hold the same stages and sum their gradients, even without data-parallel ranks.
TEST(Analytic, CopiesOfAStageAreReduced) {
  Workload workload = llama();
  workload.cluster.nodes = 4;
  workload.parallelism.data = 1;
  PipelineSpec both{.ranks = 4, .stages = 8, .microbatches = 128};
  for (int s = 0; s < 8; ++s) both.placement.push_back(RankId(s < 4 ? s : 7 - s));
  for (int s = 0; s < 4; ++s) both.blocks.push_back({.stages = {StageId(s), StageId(s + 4)}});
  for (int mb = 0; mb < 128; ++mb) both.route.push_back(RouteId(mb % 2));
  for (const int first : {0, 4}) {
    std::vector<StageId> route;
    for (int s = first; s < first + 4; ++s) {
      if (s > first) both.edges.push_back({StageId(s - 1), StageId(s)});
      route.emplace_back(s);
    }
    both.routes.push_back(route);
  }
  const AnalyticCosts costs = analytic_costs(workload, Pipeline::make(both).value()).value();
  EXPECT_GT(costs.ends[RankId(1)].reduction, 0);
  EXPECT_EQ(analytic_costs(workload, test::chain(4, 4, 128))->ends[RankId(1)].reduction, 0);
}

/// Recomputed stages run forward again when their gradient is there, not before.
TEST(Analytic, FullRecomputeIsPartOfTheBackward) {
  Workload workload = llama();
  const CostTable kept = analytic_costs(workload, test::chain(4, 4, 64)).value().tables.costs;
  workload.parallelism.recompute = Recompute::full;
  const CostTable again = analytic_costs(workload, test::chain(4, 4, 64)).value().tables.costs;
  EXPECT_EQ(again({OpKind::recompute, 1}), 0);
  EXPECT_EQ(again({OpKind::backward, 1}), kept({OpKind::backward, 1}) + kept({OpKind::forward, 1}));
}

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

/// F of one stage beside B of another of its rank: two chunks of a V.
TEST(Analytic, AnOverlappedPairIsItsOwnForwardAndBackward) {
  const CostTable costs = analytic_costs(llama(), test::chain(4, 8, 64)).value().tables.costs;
  EXPECT_EQ(costs({OpKind::overlap, 7, 3}), costs({OpKind::forward, 7}) + costs({OpKind::backward, 3}));
  EXPECT_EQ(costs({OpKind::overlap, 3, 7}), costs({OpKind::forward, 3}) + costs({OpKind::backward, 7}));
}

TEST(Analytic, RefusesGroupsThatCannotBe) {
  Workload workload = llama();
  workload.parallelism.expert = 2;
  EXPECT_NE(analytic_costs(workload, test::chain(4, 4, 64)).error().message.find("experts"),
            std::string::npos);
  workload = llama();
  workload.stack = stack_from_name("megatron-core-no-overlap").value();
  workload.parallelism = {.tensor = 1, .pipeline = 4, .context = 16, .global_batch_size = 64};
  EXPECT_TRUE(analytic_costs(workload, test::chain(4, 4, 64)).has_value());
  workload.cluster.nodes = 64;
  workload.parallelism.context = 128;
  EXPECT_NE(analytic_costs(workload, test::chain(4, 4, 64)).error().message.find("heads"), std::string::npos);
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

/// NCCL holds multiprocessors: products whose tiles filled a wave take another one, and no product is faster.
TEST(Analytic, TransfersSlowProductsDown) {
  Workload workload = llama();
  const auto tables = [&] { return analytic_costs(workload, test::chain(4, 4, 64))->tables; };
  EXPECT_TRUE(tables().beside_transfers.entries().empty()) << "of a stack that does not say how many";
  workload.stack.transfer_channels = 20;
  const Tables contended = tables();
  for (const OpKind kind : {OpKind::forward, OpKind::backward_input, OpKind::backward_weight}) {
    EXPECT_GT(contended.beside_transfers({kind, 1}), contended.costs({kind, 1}));
    EXPECT_LT(contended.beside_transfers({kind, 1}), 2 * contended.costs({kind, 1}));
  }
  EXPECT_NEAR(static_cast<double>(contended.beside_transfers({OpKind::backward, 1})),
              static_cast<double>(contended.beside_transfers({OpKind::backward_input, 1}) +
                                  contended.beside_transfers({OpKind::backward_weight, 1})),
              2);
  workload.cluster.gpu.multiprocessors = 0;
  EXPECT_EQ(tables().beside_transfers({OpKind::forward, 1}), contended.costs({OpKind::forward, 1}))
      << "not known";
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

TEST(Analytic, FlopsAreSixPerParameterAndTokenPlusAttention) {
  const auto costs = analytic_costs(llama(), test::chain(4, 4, 64)).value();
  const double tokens = 128 * 8192.0;
  EXPECT_DOUBLE_EQ(costs.tokens_per_step, tokens);
  // Without the embedding, and with causal attention: 6 N + 6 x layers x heads x head_dim x sequence a token.
  const double expected = 6 * (70.55e9 - 128256 * 8192.0) + 6.0 * 80 * 64 * 128 * 8192;
  EXPECT_NEAR(costs.model_flops_per_step / tokens, expected, 0.001 * expected);
  EXPECT_DOUBLE_EQ(costs.peak_flops, 64 * 989e12);
}

TEST(Analytic, ParametersAreSharedOut) {
  const auto sizes = analytic_costs(llama(), test::chain(4, 4, 64)).value().tables.sizes;
  Bytes parameters = 0;
  for (int b = 0; b < 4; ++b) parameters += sizes({TensorKind::parameters, b});
  EXPECT_NEAR(static_cast<double>(parameters) * 8 / 2 / 1e9, 70.55, 0.01);
  EXPECT_EQ(sizes({TensorKind::optimizer_state, 1}), sizes({TensorKind::parameters, 1}) * 6 / 2);
}

TEST(Analytic, SlowerNetworksMakeSlowerTransfers) {
  Workload workload = llama();
  const CostClass send{OpKind::send_forward, 0, 1};
  const Nanoseconds fast = analytic_costs(workload, test::chain(4, 4, 64))->tables.costs(send);
  workload.cluster.node.node_gbytes = 100;
  const Nanoseconds slow = analytic_costs(workload, test::chain(4, 4, 64))->tables.costs(send);
  EXPECT_NEAR(static_cast<double>(slow - 10'000), 4.0 * static_cast<double>(fast - 10'000), 4.0);
}

TEST(Analytic, NeighboursInOneNodeUseNvlink) {
  Workload workload = llama();
  workload.parallelism = {
      .tensor = 2, .pipeline = 4, .data = 8, .global_batch_size = 128, .rank_order = RankOrder::tp_cp_pp_dp};
  const auto inside =
      analytic_costs(workload, test::chain(4, 4, 16))->tables.costs({OpKind::send_forward, 0, 1});
  workload.parallelism.rank_order = RankOrder::tp_cp_dp_pp;
  const auto across =
      analytic_costs(workload, test::chain(4, 4, 16))->tables.costs({OpKind::send_forward, 0, 1});
  EXPECT_LT(inside, across);
}

/// Whether all GPUs of both pipeline ranks are in one NVLink domain, of the first data-parallel replica.
bool in_one_domain(const Workload& workload, int a, int b) {
  const Parallelism& p = workload.parallelism;
  const int group = p.tensor * p.context;
  std::set<int> domains;
  for (const int rank : {a, b}) {
    for (int i = 0; i < group; ++i) {
      const int gpu = p.rank_order == RankOrder::tp_cp_pp_dp ? rank * group + i : rank * p.data * group + i;
      domains.insert(gpu / workload.cluster.node.nvlink_domain);
    }
  }
  return domains.size() == 1;
}

TEST(Analytic, TransfersUseNvlinkWhereItConnectsAllGpusOfBothRanks) {
  Workload workload = llama();
  workload.cluster.nodes = 1;
  for (const auto& [tensor, context] : {std::pair{1, 1}, {2, 1}, {4, 1}, {2, 4}, {8, 2}}) {
    for (const RankOrder order : {RankOrder::tp_cp_pp_dp, RankOrder::tp_cp_dp_pp}) {
      workload.parallelism = {.tensor = tensor,
                              .pipeline = 4,
                              .data = 2,
                              .context = context,
                              .global_batch_size = 128,
                              .rank_order = order};
      const int gpus = workload.cluster.node.gpus = workload.parallelism.gpus();
      const auto sends = [&](int domain) {
        workload.cluster.node.nvlink_domain = domain;
        const CostTable costs = analytic_costs(workload, test::chain(4, 4, 64)).value().tables.costs;
        std::vector<Nanoseconds> times;
        for (int s = 0; s < 3; ++s) times.push_back(costs({OpKind::send_forward, s, s + 1}));
        return times;
      };
      const std::vector<Nanoseconds> network = sends(1);
      const std::vector<Nanoseconds> nvlink = sends(gpus);
      for (int domain = 1; domain <= gpus; ++domain) {
        const std::vector<Nanoseconds> times = sends(domain);
        for (int s = 0; s < 3; ++s) {
          const auto at = static_cast<std::size_t>(s);
          EXPECT_LT(nvlink[at], network[at]);
          EXPECT_EQ(times[at], in_one_domain(workload, s, s + 1) ? nvlink[at] : network[at])
              << "tp " << tensor << ", cp " << context << ", domains of " << domain << ", stage " << s;
        }
      }
    }
  }
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

/// A chain of p stages whose last one feeds p shards, and the collective that sums their gradients behind
/// this pass.
Pipeline sharded_output(int p, OpKind after) {
  PipelineSpec spec{.ranks = p, .stages = 2 * p, .microbatches = 64};
  Collective sum{.name = "sum", .members = {}, .after = {after, {}}, .gradient_of = StageId(p - 1)};
  for (int r = 0; r < p; ++r) {
    if (r > 0) spec.edges.push_back({StageId(r - 1), StageId(r)});
    spec.edges.push_back({StageId(p - 1), StageId(p + r)});
    sum.members.emplace_back(r);
    sum.after.stages.emplace_back(p + r);
  }
  spec.collectives = {sum};
  return Pipeline::make(spec).value();
}

TEST(Analytic, SharesTheHeadAmongItsShards) {
  const Tables whole = analytic_costs(llama(), test::chain(4, 4, 64)).value().tables;
  const Tables late = analytic_costs(llama(), sharded_output(4, OpKind::backward)).value().tables;
  const auto head = [&](OpKind kind) { return whole.costs({kind, 3}) - late.costs({kind, 3}); };
  EXPECT_GT(head(OpKind::forward), 0);
  EXPECT_EQ(late.costs({OpKind::forward, 3}), late.costs({OpKind::forward, 1})) << "layers alone";
  for (const OpKind kind : {OpKind::forward, OpKind::backward}) {
    EXPECT_NEAR(static_cast<double>(4 * late.costs({kind, 5})), static_cast<double>(head(kind)), 5);
  }
  EXPECT_NEAR(static_cast<double>(whole.sizes({TensorKind::parameters, 3})),
              static_cast<double>(late.sizes({TensorKind::parameters, 3}) +
                                  4 * late.sizes({TensorKind::parameters, 5})),
              5);
  EXPECT_GT(late.costs({OpKind::collective, 0}), 0);

  const Tables early = analytic_costs(llama(), sharded_output(4, OpKind::forward)).value().tables;
  EXPECT_GT(early.costs({OpKind::forward, 5}), late.costs({OpKind::forward, 5})) << "S makes the gradient";
  EXPECT_NEAR(static_cast<double>(early.costs({OpKind::forward, 5}) + early.costs({OpKind::backward, 5})),
              static_cast<double>(late.costs({OpKind::forward, 5}) + late.costs({OpKind::backward, 5})), 2);
}

TEST(Analytic, RefusesShardsOfNothing) {
  PipelineSpec spec{.ranks = 4, .stages = 4, .microbatches = 64};
  for (int s = 1; s < 4; ++s) spec.edges.push_back({StageId(0), StageId(s)});
  spec.collectives = {{.name = "sum",
                       .members = {RankId(0), RankId(1), RankId(2), RankId(3)},
                       .after = {OpKind::forward, {StageId(1), StageId(2), StageId(3)}},
                       .gradient_of = StageId(0)}};
  spec.routes = {{StageId(1), StageId(2), StageId(3)}, {StageId(0), StageId(1)}};
  EXPECT_FALSE(analytic_costs(llama(), Pipeline::make(spec).value()).has_value());
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

TEST(Analytic, CopiesOfActivationsTakeTheirBytes) {
  Workload workload = llama();
  const auto tables = analytic_costs(workload, test::chain(4, 4, 64)).value().tables;
  const auto bytes = static_cast<double>(tables.sizes({TensorKind::lent_activations, 1}));
  EXPECT_NEAR(static_cast<double>(tables.costs({OpKind::offload, 1})), bytes / (0.8 * 64), 1.0);
  EXPECT_EQ(tables.costs({OpKind::offload, 1}), tables.costs({OpKind::reload, 1}));
  EXPECT_GT(tables.costs({OpKind::send_activation, 1}), tables.costs({OpKind::send_forward, 1, 2}));
}

TEST(Analytic, RefusesWhatItDoesNotCover) {
  Workload workload = llama();
  EXPECT_FALSE(analytic_costs(workload, test::chain(2, 4, 64)).has_value()) << "two ranks, but pp is 4";
  EXPECT_FALSE(analytic_costs(workload, test::chain(4, 84, 64)).has_value()) << "more stages than layers";
  workload.model = model_from_name("t5-11b").value();
  EXPECT_NE(analytic_costs(workload, test::chain(4, 4, 64)).error().place.found, "");
  workload = llama();
  workload.parallelism.dtype = DataType::fp8;
  workload.cluster = cluster_from_name("dgx-a100", 8).value();
  EXPECT_NE(analytic_costs(workload, test::chain(4, 4, 64)).error().message.find("fp8"), std::string::npos);
}

}  // namespace
}  // namespace ppsim
