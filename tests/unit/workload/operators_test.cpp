#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "operators/constants.hpp"
#include "operators/network.hpp"
#include "operators/operator_times.hpp"
#include "operators/tables.hpp"

namespace ppsim::workload {
namespace {

const OperatorTable& h100() { return *operator_table("h100_sxm"); }

/// Rows of workload/data/products.csv.
TEST(OperatorTable, HasTheMeasuredProducts) {
  const auto us = [](const Product& product, DataType type) {
    return product.flops() / *h100().product_rate(product, type) * 1e6;
  };
  EXPECT_NEAR(us({4096, 8192, 8192}, DataType::bf16), 639.7, 1e-6);
  EXPECT_NEAR(us({4096, 8192, 8192}, DataType::fp8), 446.6, 1e-6);
  EXPECT_NEAR(us({128, 128, 128}, DataType::bf16) / us({128, 128, 128}, DataType::bf16), 1, 1e-12);
  EXPECT_FALSE(h100().product_rate({4096, 8192, 8192}, DataType::nvfp4)) << "Hopper has none";
  EXPECT_FALSE(operator_table("a100_sxm")->product_rate({4096, 8192, 8192}, DataType::fp8));
}

TEST(OperatorTable, InterpolatesRatesBetweenTheirNeighbours) {
  const double low = *h100().product_rate({4096, 8192, 8192}, DataType::bf16);
  const double high = *h100().product_rate({4096, 8192, 10240}, DataType::bf16);
  const double middle = *h100().product_rate({4096, 8192, std::sqrt(8192.0 * 10240)}, DataType::bf16);
  EXPECT_NEAR(middle, std::sqrt(low * high), 1e-6 * middle) << "half the way in logarithms";
}

/// A product, and the time in ns that one H100 took for it alone (studies/h100/products.json, plain calls).
struct MeasuredProduct {
  Product product;
  double ns;
};

/// Another machine than the table's, and sizes between its own.
TEST(OperatorTimes, AreThoseOfAnH100ThatTheTableDoesNotKnow) {
  const auto& presets = gpu_presets();
  const auto found = std::ranges::find(presets, "h100-sxm-80gb", &GpuDescription::name);
  ASSERT_NE(found, presets.end());
  // Neither what power sustains over a step nor how much slower a product is in one.
  GpuDescription gpu = *found;
  gpu.sustained_tflops = 0;
  FittedConstants alone;
  alone.product_slowdown = 1;
  const OperatorTimes times(gpu, true, alone);
  const std::vector<MeasuredProduct> forward = {
      {{2048, 6144, 2048}, 69856},   {{2048, 2048, 6144}, 65830},   {{2048, 2048, 2048}, 26003},
      {{2048, 11264, 2048}, 139680}, {{2048, 2048, 11264}, 117686}, {{2048, 2048, 5632}, 64035},
      {{2048, 8192, 2048}, 92499},   {{1024, 12288, 4096}, 132534}, {{1024, 4096, 12288}, 128262},
      {{1024, 22016, 4096}, 258553}, {{1024, 4096, 22016}, 242835}, {{1024, 8192, 4096}, 89475}};
  double sum = 0;
  for (const auto& [product, ns] : forward) {
    const double error = times.product(product, DataType::bf16) * 1e9 / ns - 1;
    EXPECT_LT(std::abs(error), 0.17) << ns;
    sum += std::abs(error);
  }
  EXPECT_LT(sum / static_cast<double>(forward.size()), 0.07);
  // Added to gradients in float32, which are read and written once.
  const std::vector<MeasuredProduct> weight = {
      {{2048, 11264, 2048}, 185811}, {{4096, 22016, 1024}, 481664}, {{4096, 4096, 1024}, 93814}};
  for (const auto& [product, ns] : weight) {
    const double sums = times.beside(2 * 4 * product.m * product.n);
    EXPECT_NEAR((times.product(product, DataType::bf16) + sums) * 1e9 / ns, 1, 0.1) << ns;
  }
}

TEST(OperatorTable, TheNearestRateHoldsOutside) {
  EXPECT_EQ(*h100().product_rate({1 << 20, 8192, 8192}, DataType::bf16),
            *h100().product_rate({32768, 8192, 8192}, DataType::bf16));
  EXPECT_EQ(*h100().product_rate({1, 8192, 8192}, DataType::bf16),
            *h100().product_rate({128, 8192, 8192}, DataType::bf16));
  // The largest of all was not measured: its neighbours speak for it.
  EXPECT_GT(*h100().product_rate({4096, 65536, 65536}, DataType::bf16), 1e14);
}

TEST(OperatorTable, NoRateIsAboveTheDataSheet) {
  for (const GpuDescription& gpu : gpu_presets()) {
    const OperatorTable* table = operator_table(gpu.operators);
    if (table == nullptr) continue;
    for (double size = 128; size <= 65536; size *= 2) {
      EXPECT_LE(*table->product_rate({4096, size, 8192}, DataType::bf16), gpu.bf16_tflops * 1e12) << gpu.name;
      EXPECT_LE(*table->attention_rate(8, size, 128), gpu.bf16_tflops * 1e12) << gpu.name;
    }
  }
}

TEST(OperatorTable, HasTheMeasuredAttentionAndCollectives) {
  EXPECT_NEAR(*h100().attention_rate(64, 4096, 128), 625.4e12, 1e6);
  EXPECT_NEAR(*h100().collective_time(CollectiveKind::all_gather, 8, 67108864), 208.1e-6, 1e-12);
  const double largest = *h100().collective_time(CollectiveKind::all_gather, 8, 536870912);
  EXPECT_NEAR(*h100().collective_time(CollectiveKind::all_gather, 8, 4 * 536870912.0), 4 * largest, 1e-9);
  // 6 of 8 GPUs are not measured: those of 4, of which each sends three quarters and here five sixths.
  EXPECT_NEAR(*h100().collective_time(CollectiveKind::all_gather, 6, 67108864),
              *h100().collective_time(CollectiveKind::all_gather, 4, 67108864) * (5.0 / 6) / (3.0 / 4),
              1e-12);
}

TEST(OperatorTimes, PowerLimitsWhatASteadyStepReaches) {
  const ClusterDescription h100_node = cluster_from_name("dgx-h100", 1).value();
  const ClusterDescription b200_node = cluster_from_name("dgx-b200", 1).value();
  const Product large{8192, 8192, 8192};
  const auto rate = [&](const GpuDescription& gpu, DataType type) {
    return large.flops() / (OperatorTimes(gpu, false).product(large, type) - FittedConstants().kernel_time) /
           1e12;
  };
  EXPECT_NEAR(rate(h100_node.gpu, DataType::bf16), 700, 1e-6);
  EXPECT_NEAR(rate(b200_node.gpu, DataType::bf16), 1100, 1e-6);
  EXPECT_NEAR(rate(b200_node.gpu, DataType::fp8), 2200, 1e-6);
}

/// A GPU of which nothing was measured.
GpuDescription unknown_gpu() {
  return {.name = "custom",
          .bf16_tflops = 100,
          .bf16_achievable_tflops = 80,
          .memory_bytes = 1,
          .memory_tbps = 1,
          .nvlink_gbytes = 100};
}

TEST(OperatorTimes, WithoutMeasurementsTheAchievableRateHolds) {
  const GpuDescription gpu = unknown_gpu();
  const OperatorTimes times(gpu, true);
  EXPECT_DOUBLE_EQ(times.product({1000, 1000, 1000}, DataType::bf16), 2e9 / 80e12 + kGraphKernelTime);
  EXPECT_DOUBLE_EQ(times.traffic(850e9), 1 + kGraphKernelTime);
  // 200 rows each: half the rate.
  EXPECT_DOUBLE_EQ(times.grouped_product({1000, 1000, 1000}, 200, DataType::bf16),
                   4e9 / 80e12 + kGraphKernelTime);
}

ClusterDescription two_nodes() {
  return {.node = {.name = "custom", .gpu = "custom", .gpus = 4, .nvlink_domain = 4, .node_gbytes = 100},
          .gpu = unknown_gpu(),
          .nodes = 2};
}

TEST(Network, GroupsShareTheLinksOfTheirNodes) {
  const ClusterDescription cluster = two_nodes();
  const Parallelism parallelism{.tensor = 2, .data = 4};
  const Network network(cluster, parallelism, nullptr);
  EXPECT_EQ(network.tensor().per_domain, 2);
  EXPECT_EQ(network.replicas().members, 4);
  EXPECT_EQ(network.replicas().per_domain, 2) << "GPUs 0, 2 | 4, 6";
  // Two members of a node have two of its four links, 25 GB/s each.
  const double links = FittedConstants().network_efficiency * 50e9;
  EXPECT_DOUBLE_EQ(network.collective(CollectiveKind::all_reduce, network.replicas(), 1e9),
                   4 * kNetworkLatency + 2 * 0.75 * 1e9 / links);
  EXPECT_DOUBLE_EQ(network.collective(CollectiveKind::all_gather, network.tensor(), 1e9),
                   kNvlinkLatency + 0.5 * 1e9 / (kNvlinkEfficiency * 100e9));
}

/// Ishii and Wells, Hot Chips 34: of 8 GPUs 9 parts instead of 14.
TEST(Network, SwitchesThatSumTakeEachBufferOnce) {
  ClusterDescription cluster = two_nodes();
  cluster.node.nvlink_domain = 8;
  const double rate = kNvlinkEfficiency * 100e9;
  const auto all_reduce = [&](std::optional<double> sums, int members) {
    cluster.node.nvlink_sums = sums;
    const Network network(cluster, {.tensor = members}, nullptr);
    return network.collective(CollectiveKind::all_reduce, network.tensor(), 8e9);
  };
  EXPECT_DOUBLE_EQ(all_reduce(1, 8), kNvlinkLatency + 9e9 / rate);
  EXPECT_DOUBLE_EQ(all_reduce(0.75, 8), kNvlinkLatency + 12e9 / rate);
  EXPECT_DOUBLE_EQ(all_reduce(0, 8), 2 * kNvlinkLatency + 14e9 / rate) << "a ring";
  EXPECT_DOUBLE_EQ(all_reduce(std::nullopt, 8), kNvlinkLatency + 14e9 / rate) << "a ring, of one latency";
  EXPECT_DOUBLE_EQ(all_reduce(1, 2), 2 * kNvlinkLatency + 8e9 / rate) << "a ring sends 2 parts, switches 3";
}

/// NCCL's shares (nvlsEfficiency of its tuning: Hopper 0.85, Blackwell 0.74) are those of its measured times.
TEST(Network, SwitchesSumAsFastAsMeasured) {
  const std::vector<std::pair<const char*, double>> shares = {
      {"dgx-h100", 0.85}, {"dgx-h200", 0.85}, {"dgx-b200", 0.74}};
  for (const auto& [name, share] : shares) {
    ClusterDescription cluster = cluster_from_name(name, 1).value();
    const auto all_reduce = [&](std::optional<double> sums) {
      cluster.node.nvlink_sums = sums;
      const Network network(cluster, {.tensor = 8}, operator_table(cluster.gpu.operators));
      return network.collective(CollectiveKind::all_reduce, network.tensor(), 512 << 20);
    };
    EXPECT_NEAR(all_reduce(share) / all_reduce(std::nullopt), 1, 0.04) << name;
    EXPECT_GT(all_reduce(0.0) / all_reduce(std::nullopt), 1.1) << name;
  }
}

/// Tensor parallelism over more than a domain goes over the network.
TEST(Network, AGroupBeyondItsDomainIsNoNvlinkGroup) {
  const ClusterDescription cluster = two_nodes();
  const Parallelism parallelism{.tensor = 8};
  const Network network(cluster, parallelism, nullptr);
  EXPECT_EQ(network.tensor().per_domain, 4);
  const double links = std::min(4 * FittedConstants().network_efficiency * 25e9, kNvlinkEfficiency * 100e9);
  EXPECT_DOUBLE_EQ(network.collective(CollectiveKind::all_gather, network.tensor(), 1e9),
                   4 * kNetworkLatency + 0.875 * 1e9 / links);
}

/// Experts within an NVLink domain take none of the network, and a token goes to a node once.
TEST(Network, ExpertsOfADomainExchangeOverNvlink) {
  const ClusterDescription cluster = two_nodes();
  const auto exchange = [&](const Parallelism& parallelism) {
    const Network network(cluster, parallelism, nullptr);
    return network.expert_exchange(network.expert(1), 1e9, 2);
  };
  const Parallelism near{.data = 8, .expert = 4};
  EXPECT_DOUBLE_EQ(exchange(near), kNvlinkLatency + 0.75 * 1e9 / (kNvlinkEfficiency * 100e9));
  const Parallelism far{.data = 8, .expert = 8};
  // Of 2 copies of a token one or both go to the other of two nodes but with a chance of 1 in 4.
  const double visited = 2 * (1 - std::pow(0.5, 2));
  EXPECT_DOUBLE_EQ(exchange(far), 2 * kNetworkLatency + 1e9 / 2 * visited * 0.5 /
                                                            (FittedConstants().network_efficiency * 25e9));
}

/// Nodes of 6 GPUs, which groups of 4 do not divide.
ClusterDescription nodes_of_six(int nodes) {
  ClusterDescription cluster = two_nodes();
  cluster.node.gpus = cluster.node.nvlink_domain = 6;
  cluster.nodes = nodes;
  return cluster;
}

void expect_group(const RankGroup& group, const RankGroup& expected, const char* what) {
  EXPECT_EQ(group.members, expected.members) << what;
  EXPECT_EQ(group.per_domain, expected.per_domain) << what;
  EXPECT_EQ(group.domains, expected.domains) << what;
}

TEST(Network, AGroupIsTheWorstOfItsKind) {
  const ClusterDescription cluster = nodes_of_six(8);
  const auto network = [&](const Parallelism& parallelism) { return Network(cluster, parallelism, nullptr); };
  expect_group(network({.tensor = 4, .pipeline = 12}).tensor(), {4, 2, 2},
               "GPUs 4, 5 | 6, 7 of a later stage");
  expect_group(network({.tensor = 4, .data = 12}).tensor(), {4, 2, 2}, "of a later replica");
  expect_group(network({.tensor = 2, .data = 24}).tensor(), {2, 2, 1}, "which divides the domain");
  expect_group(network({.data = 12, .context = 4}).context(), {4, 2, 2}, "context");
  expect_group(network({.pipeline = 6, .data = 8}).replicas(), {8, 2, 2}, "0 to 5 | 6, 7, then 4 | 4");
  expect_group(network({.data = 48, .expert = 8}).expert(1), {8, 2, 2}, "experts");
  expect_group(network({.data = 48, .expert = 2}).expert_replicas(1), {24, 3, 8}, "every second GPU");
  const Parallelism apart{.tensor = 4, .pipeline = 2, .data = 6, .rank_order = RankOrder::tp_cp_pp_dp};
  expect_group(network(apart).tensor(), {4, 2, 2}, "pipelines next to each other");
}

/// GPUs 5 | 6, which one pipeline of two has.
TEST(Network, RanksAreAsFarApartAsInTheWorstReplica) {
  const ClusterDescription cluster = nodes_of_six(2);
  const auto between = [&](const Parallelism& parallelism) {
    return Network(cluster, parallelism, nullptr).between(RankId(0), RankId(1), 1e9);
  };
  const double network = kNetworkLatency + 1e9 / (FittedConstants().network_efficiency * 100e9 / 6);
  const double nvlink = kNvlinkLatency + 1e9 / (kNvlinkEfficiency * 100e9);
  EXPECT_DOUBLE_EQ(between({.pipeline = 3, .data = 4, .rank_order = RankOrder::tp_cp_pp_dp}), nvlink);
  EXPECT_DOUBLE_EQ(between({.pipeline = 4, .data = 3, .rank_order = RankOrder::tp_cp_pp_dp}), nvlink);
  EXPECT_DOUBLE_EQ(between({.tensor = 2, .pipeline = 2, .data = 3, .rank_order = RankOrder::tp_cp_pp_dp}),
                   network)
      << "4 to 6";
  EXPECT_DOUBLE_EQ(between({.pipeline = 3, .data = 4}), network) << "3 to 7, and 0 to 4 in one node";
}

/// The GPU that is alone in its domain gets what the 7 others have for it, and nothing twice.
TEST(Network, ExpertsWaitForTheGpuWithTheFewestNeighbours) {
  const ClusterDescription cluster = nodes_of_six(7);
  const Parallelism parallelism{.pipeline = 3, .data = 14, .expert = 7};
  const Network network(cluster, parallelism, nullptr);
  expect_group(network.expert(1), {7, 1, 2}, "0 to 5 | 6");
  const double rate = FittedConstants().network_efficiency * 100e9 / 6;
  EXPECT_DOUBLE_EQ(network.expert_exchange(network.expert(1), 7e9, 1), 2 * kNetworkLatency + 6e9 / rate);
}

/// A token goes into the other domain once, and there over NVLink to each of its experts.
TEST(Network, ExpertsOfSeveralDomainsAreNotFasterThanNvlink) {
  ClusterDescription cluster = two_nodes();
  cluster.node.node_gbytes = 400;
  const Parallelism parallelism{.data = 8, .expert = 8};
  const Network network(cluster, parallelism, nullptr);
  EXPECT_DOUBLE_EQ(network.expert_exchange(network.expert(1), 1e9, 8),
                   kNvlinkLatency + 0.875 * 1e9 / (kNvlinkEfficiency * 100e9));
}

}  // namespace
}  // namespace ppsim::workload
