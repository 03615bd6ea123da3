#include <gtest/gtest.h>

#include <set>
#include <utility>
#include <vector>

#include "support/llama.hpp"
#include "support/programs.hpp"

namespace ppsim {
namespace {

using test::llama;

/// Where a stack lets sends block, their time belongs to the action that sends and not to the transfer.
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

/// True where all GPUs of both pipeline ranks are in one NVLink domain, in each data-parallel replica.
bool in_one_domain(const Workload& workload, int a, int b) {
  const Parallelism& p = workload.parallelism;
  const int group = p.tensor * p.context;
  for (int replica = 0; replica < p.data; ++replica) {
    std::set<int> domains;
    for (const int rank : {a, b}) {
      const bool apart = p.rank_order == RankOrder::tp_cp_pp_dp;
      const int first = group * (apart ? replica * p.pipeline + rank : rank * p.data + replica);
      for (int i = 0; i < group; ++i) domains.insert((first + i) / workload.cluster.node.nvlink_domain);
    }
    if (domains.size() > 1) return false;
  }
  return true;
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

}  // namespace
}  // namespace ppsim
