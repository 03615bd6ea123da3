#include "analytic_links.hpp"

#include <algorithm>

namespace ppsim::workload {
namespace {

constexpr double kLinkEfficiency = 0.8;
constexpr double kNvlinkLatency = 3e-6;    // seconds
constexpr double kNetworkLatency = 10e-6;  // seconds, where the cluster does not say

double rate(double gbytes) { return kLinkEfficiency * gbytes * 1e9; }

}  // namespace

AnalyticLinks::AnalyticLinks(const ClusterDescription& cluster, const Parallelism& spread)
    : cluster_(cluster), spread_(spread) {}

double AnalyticLinks::nvlink_time(double bytes) const {
  return kNvlinkLatency + bytes / rate(cluster_.gpu.nvlink_gbytes);
}

double AnalyticLinks::network_time(double bytes) const {
  const NodeDescription& node = cluster_.node;
  const double latency = node.latency_us ? *node.latency_us * 1e-6 : kNetworkLatency;
  return latency + bytes / (rate(node.node_gbytes.value_or(0)) / node.gpus);
}

double AnalyticLinks::host_time(double bytes) const { return bytes / rate(cluster_.gpu.host_gbytes); }

double AnalyticLinks::time_between(RankId a, RankId b, double bytes) const {
  return share_nvlink(std::min(a, b), std::max(a, b)) ? nvlink_time(bytes) : network_time(bytes);
}

/// From the layout of groups over GPUs.
bool AnalyticLinks::share_nvlink(RankId a, RankId b) const {
  const std::int64_t inner = std::int64_t{spread_.tensor} * spread_.context;
  const std::int64_t stride = spread_.rank_order == RankOrder::tp_cp_dp_pp ? inner * spread_.data : inner;
  return a.value() * stride / cluster_.node.nvlink_domain ==
         (b.value() * stride + inner - 1) / cluster_.node.nvlink_domain;
}

}  // namespace ppsim::workload
