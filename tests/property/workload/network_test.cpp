// No larger domain, no faster link and no smaller buffer makes communication slower.

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <map>
#include <vector>

#include "operators/network.hpp"
#include "operators/tables.hpp"

namespace ppsim::workload {
namespace {

constexpr double kRounding = 1 + 1e-12;

struct NetworkCase {
  ClusterDescription cluster;
  Parallelism parallelism;
  int split = 1;  ///< GPUs that share an expert
  double bytes = 0;
  double experts_per_token = 1;
};

/// Any sizes, whether they divide each other or not, over some domains of nodes. NVLink is faster than the
/// network, also where that takes a token once and NVLink each of its copies.
NetworkCase random_case() {
  NetworkCase result;
  Parallelism& parallelism = result.parallelism;
  parallelism = {.tensor = *rc::gen::element(1, 2, 3, 4, 8),
                 .pipeline = *rc::gen::inRange(1, 7),
                 .data = *rc::gen::inRange(1, 13),
                 .context = *rc::gen::element(1, 1, 2, 3),
                 .rank_order = *rc::gen::element(RankOrder::tp_cp_dp_pp, RankOrder::tp_cp_pp_dp)};
  if (*rc::gen::inRange(0, 3) == 0) result.split = parallelism.tensor;
  const int ranks = parallelism.tensor * parallelism.context * parallelism.data / result.split;
  std::vector<int> sizes;
  for (int size = 1; size <= ranks; ++size) {
    if (ranks % size == 0) sizes.push_back(size);
  }
  parallelism.expert = *rc::gen::elementOf(sizes);
  result.bytes = *rc::gen::inRange(1, 1 << 30);
  result.experts_per_token = *rc::gen::inRange(1, 9);
  const double node = *rc::gen::inRange(1, 100);
  // One node for all, so that its domains have the sizes set here.
  result.cluster = {.node = {.name = "custom",
                             .gpu = "custom",
                             .gpus = parallelism.gpus(),
                             .nvlink_domain = *rc::gen::inRange(1, parallelism.gpus() + 1),
                             .node_gbytes = node * parallelism.gpus()},
                    .gpu = {.name = "custom", .nvlink_gbytes = node * *rc::gen::inRange(9, 40)},
                    .nodes = 1};
  return result;
}

/// Of every collective of a step, and every exchange and transfer.
std::vector<double> times_of(const NetworkCase& of, const OperatorTable* table = nullptr) {
  const Network network(of.cluster, of.parallelism, table);
  std::vector<double> times;
  times.push_back(network.expert_exchange(network.expert(of.split), of.bytes, of.experts_per_token));
  for (const RankGroup& group : {network.tensor(), network.context(), network.replicas(),
                                 network.expert(of.split), network.expert_replicas(of.split)}) {
    for (const CollectiveKind kind : {CollectiveKind::all_gather, CollectiveKind::reduce_scatter,
                                      CollectiveKind::all_reduce, CollectiveKind::all_to_all})
      times.push_back(network.collective(kind, group, of.bytes));
  }
  for (int rank = 1; rank < of.parallelism.pipeline; ++rank)
    times.push_back(network.between(RankId(rank - 1), RankId(rank), of.bytes));
  return times;
}

void expect_none_longer(const std::vector<double>& faster, const std::vector<double>& slower) {
  RC_ASSERT(faster.size() == slower.size());
  for (std::size_t i = 0; i < faster.size(); ++i) RC_ASSERT(faster[i] <= slower[i] * kRounding);
}

/// Of domains that consist of smaller ones: others may cut groups that those do not.
RC_GTEST_PROP(NetworkTimes, LargerDomainsAreNotSlower, ()) {
  NetworkCase drawn = random_case();
  const std::vector<double> slower = times_of(drawn);
  drawn.cluster.node.nvlink_domain *= *rc::gen::inRange(2, 9);
  drawn.cluster.node.gpus = std::max(drawn.cluster.node.gpus, drawn.cluster.node.nvlink_domain);
  drawn.cluster.node.node_gbytes =
      *drawn.cluster.node.node_gbytes / drawn.parallelism.gpus() * drawn.cluster.node.gpus;
  expect_none_longer(times_of(drawn), slower);
}

RC_GTEST_PROP(NetworkTimes, FasterLinksAreNotSlower, ()) {
  NetworkCase drawn = random_case();
  const std::vector<double> slower = times_of(drawn);
  const double factor = *rc::gen::inRange(1, 5);
  if (*rc::gen::inRange(0, 2) == 0) {
    drawn.cluster.gpu.nvlink_gbytes *= factor;
  } else {
    *drawn.cluster.node.node_gbytes *= factor;
  }
  expect_none_longer(times_of(drawn), slower);
}

RC_GTEST_PROP(NetworkTimes, MoreBytesAreNotFaster, ()) {
  NetworkCase drawn = random_case();
  const std::vector<double> fewer = times_of(drawn);
  drawn.bytes *= *rc::gen::inRange(1, 5);
  expect_none_longer(fewer, times_of(drawn));
}

/// Also with measured times of NVLink, unless no two GPUs of a group are connected by it.
RC_GTEST_PROP(NetworkTimes, AnExchangeIsNotFasterThanNvlink, ()) {
  NetworkCase drawn = random_case();
  const RankGroup group = Network(drawn.cluster, drawn.parallelism, nullptr).expert(drawn.split);
  if (group.domains == group.members) return;
  const OperatorTable* table = operator_table(*rc::gen::element("h100_sxm", "gb200"));
  const double slower = times_of(drawn, table).front();
  drawn.cluster.node.nvlink_domain = drawn.parallelism.gpus();
  RC_ASSERT(times_of(drawn, table).front() <= slower * kRounding);
}

/// GPU by GPU.
RC_GTEST_PROP(NetworkTimes, GroupsAreThoseOfTheirGpus, ()) {
  const NetworkCase drawn = random_case();
  const Parallelism& parallelism = drawn.parallelism;
  const int inner = parallelism.tensor * parallelism.context;
  const bool apart = parallelism.rank_order == RankOrder::tp_cp_pp_dp;
  const auto domain_of = [&](int stage, int rank) {
    const int replica = rank / inner;
    const int at = apart ? replica * parallelism.pipeline + stage : stage * parallelism.data + replica;
    return (at * inner + rank % inner) / drawn.cluster.node.nvlink_domain;
  };
  const auto worst_of = [&](int step, int members) {
    RankGroup worst{members, members, 1};
    for (int stage = 0; stage < parallelism.pipeline; ++stage) {
      for (int first = 0; first < inner * parallelism.data; ++first) {
        if (first / step % members != 0) continue;
        std::map<int, int> sizes;  // of the group's domains
        for (int i = 0; i < members; ++i) ++sizes[domain_of(stage, first + i * step)];
        for (const auto& [domain, size] : sizes) worst.per_domain = std::min(worst.per_domain, size);
        worst.domains = std::max(worst.domains, static_cast<int>(sizes.size()));
      }
    }
    return worst;
  };
  const auto expect = [](const RankGroup& group, const RankGroup& worst) {
    RC_ASSERT(group.members == worst.members);
    RC_ASSERT(group.per_domain == worst.per_domain);
    RC_ASSERT(group.domains == worst.domains);
  };
  const Network network(drawn.cluster, parallelism, nullptr);
  expect(network.tensor(), worst_of(1, parallelism.tensor));
  expect(network.context(), worst_of(parallelism.tensor, parallelism.context));
  expect(network.replicas(), worst_of(parallelism.tensor, parallelism.context * parallelism.data));
  expect(network.expert(drawn.split), worst_of(drawn.split, parallelism.expert));
  const int copy = parallelism.expert * drawn.split;
  if (parallelism.expert > 1)
    expect(network.expert_replicas(drawn.split), worst_of(copy, inner * parallelism.data / copy));
}

}  // namespace
}  // namespace ppsim::workload
