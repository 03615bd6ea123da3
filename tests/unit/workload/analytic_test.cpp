#include "ppsim/workload/analytic.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "support/llama.hpp"
#include "support/programs.hpp"

namespace ppsim {
namespace {

using test::llama;

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
  }
  EXPECT_EQ(costs({OpKind::recompute, 1}), costs({OpKind::forward, 1}));
  EXPECT_GT(costs({OpKind::forward, 3}), costs({OpKind::forward, 1})) << "the head costs something";
}

/// A GPU without measurements and without fixed costs that matter: the rest is arithmetic.
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

/// All-gathers and reduce-scatters, two each, of the other ranks' parts of a layer's hidden states; all but a
/// share of them is hidden.
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

/// Ids and positions of 16 bytes a token where the embedding is, labels and a mask of 12 where the loss is.
TEST(Analytic, TokensComeFromTheHost) {
  using workload::InputCopies;
  Workload workload = on_paper();
  const auto costs = [&](InputCopies inputs) {
    workload.stack.inputs = inputs;
    return analytic_costs(workload, test::chain(4, 4, 64))->tables.costs;
  };
  const CostTable hidden = costs(InputCopies::prefetched);
  const CostTable pinned = costs(InputCopies::pinned);
  const CostTable pageable = costs(InputCopies::pageable);
  for (const std::int32_t stage : {0, 1, 2, 3}) {
    const CostClass forward{OpKind::forward, stage};
    const CostClass load{OpKind::load, stage};
    EXPECT_LE(std::abs(pinned(forward) - hidden(forward) - hidden(load)), 1) << "stage " << stage;
    EXPECT_EQ(pinned(load) + pageable(load), 0) << "stage " << stage;
    const double copied = 8192.0 * (stage == 0 ? 16 : stage == 3 ? 12 : 0);
    const double link = 0.8 * workload.cluster.gpu.host_gbytes;  // bytes a nanosecond
    EXPECT_NEAR(static_cast<double>(pageable(forward) - pinned(forward)), copied / link, 1);
  }
  EXPECT_EQ(hidden({OpKind::load, 1}), 0);
  const CostTable everywhere = costs(InputCopies::broadcast);
  for (const std::int32_t stage : {0, 1, 2, 3})
    EXPECT_GT(everywhere({OpKind::forward, stage}), hidden({OpKind::forward, stage}) + 350'000);
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

/// FlashAttention takes twice as long as its second version (arXiv 2307.08691, abstract), and on Hopper
/// that 1.5 to 2 times as long as kernels made for it (arXiv 2407.08608, abstract).
TEST(Analytic, OlderFlashAttentionTakesLonger) {
  const auto attention = [](const char* cluster, workload::AttentionKernel kernel) {
    Workload workload = llama();
    workload.cluster = cluster_from_name(cluster, 8).value();
    const auto forward = [&](workload::AttentionKernel of) {
      workload.stack.attention = of;
      return static_cast<double>(
          analytic_costs(workload, test::chain(4, 4, 64))->tables.costs({OpKind::forward, 1}));
    };
    return forward(kernel) - forward(workload::AttentionKernel::flash);
  };
  using workload::AttentionKernel;
  EXPECT_EQ(attention("dgx-a100", AttentionKernel::flash_2), 0);
  const double once = attention("dgx-a100", AttentionKernel::flash_1);
  EXPECT_GT(once, 0);
  // Of one core's time, 0.75 and 2.5 more.
  const double second = attention("dgx-h100", AttentionKernel::flash_2);
  EXPECT_GT(second, 0);
  EXPECT_NEAR(attention("dgx-h100", AttentionKernel::flash_1) / second, 2.5 / 0.75, 1e-5);
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

/// Recomputed stages run forward again when their gradient has arrived, not before.
TEST(Analytic, FullRecomputeIsPartOfTheBackward) {
  Workload workload = llama();
  const CostTable kept = analytic_costs(workload, test::chain(4, 4, 64)).value().tables.costs;
  workload.parallelism.recompute = Recompute::full;
  const CostTable again = analytic_costs(workload, test::chain(4, 4, 64)).value().tables.costs;
  EXPECT_EQ(again({OpKind::recompute, 1}), 0);
  EXPECT_EQ(again({OpKind::backward, 1}), kept({OpKind::backward, 1}) + kept({OpKind::forward, 1}));
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

TEST(Analytic, FlopsAreSixPerParameterAndTokenPlusAttention) {
  const auto costs = analytic_costs(llama(), test::chain(4, 4, 64)).value();
  const double tokens = 128 * 8192.0;
  EXPECT_DOUBLE_EQ(costs.tokens_per_step, tokens);
  // Without the embedding, and with causal attention: 6 N + 6 x layers x heads x head_dim x sequence a token.
  const double expected = 6 * (70.55e9 - 128256 * 8192.0) + 6.0 * 80 * 64 * 128 * 8192;
  EXPECT_NEAR(costs.model_flops_per_step / tokens, expected, 0.001 * expected);
  EXPECT_DOUBLE_EQ(costs.peak_flops, 64 * 989e12);
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
  Workload workload = llama();
  workload.stack.inputs = workload::InputCopies::prefetched;  // else each shard has its own labels
  const Tables whole = analytic_costs(workload, test::chain(4, 4, 64)).value().tables;
  const Tables late = analytic_costs(workload, sharded_output(4, OpKind::backward)).value().tables;
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

  const Tables early = analytic_costs(workload, sharded_output(4, OpKind::forward)).value().tables;
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
