#include "network.hpp"

#include <algorithm>
#include <cmath>

#include "constants.hpp"

namespace ppsim::workload {
namespace {

constexpr double kGiga = 1e9;

/// Share of a buffer that a member sends: an all-reduce is a reduce-scatter and an all-gather.
double moved(CollectiveKind kind, double members) {
  return (kind == CollectiveKind::all_reduce ? 2 : 1) * (members - 1) / members;
}

MeasuredOperation operation_of(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::all_gather:
      return MeasuredOperation::all_gather;
    case CollectiveKind::all_reduce:
      return MeasuredOperation::all_reduce;
    case CollectiveKind::all_to_all:
      return MeasuredOperation::all_to_all;
    case CollectiveKind::reduce_scatter:
      return MeasuredOperation::reduce_scatter;
  }
  return MeasuredOperation::all_reduce;
}

/// Members, `stride` GPUs apart, that share the first one's domain.
int within(int members, std::int64_t stride, std::int64_t domain) {
  return static_cast<int>(std::clamp<std::int64_t>((domain + stride - 1) / stride, 1, members));
}

}  // namespace

Network::Network(const ClusterDescription& cluster, const Parallelism& spread, const OperatorTable* table,
                 const NetworkMeasurements& measured)
    : cluster_(cluster),
      spread_(spread),
      table_(table),
      efficiency_(measured.fitted.network_efficiency),
      measured_(measured.collectives) {}

std::optional<double> Network::measured(CollectiveKind kind, const RankGroup& group, double bytes) const {
  return measured_seconds(measured_, operation_of(kind), {group.members, group.per_domain}, bytes);
}

RankGroup Network::tensor() const {
  return {spread_.tensor, within(spread_.tensor, 1, cluster_.node.nvlink_domain)};
}

RankGroup Network::context() const {
  return {spread_.context, within(spread_.context, spread_.tensor, cluster_.node.nvlink_domain)};
}

RankGroup Network::replicas() const {
  const RankGroup context = this->context();
  const std::int64_t inner = std::int64_t{spread_.tensor} * spread_.context;
  const std::int64_t stride = spread_.rank_order == RankOrder::tp_cp_dp_pp ? inner : inner * spread_.pipeline;
  const int data =
      context.per_domain < spread_.context ? 1 : within(spread_.data, stride, cluster_.node.nvlink_domain);
  return {spread_.context * spread_.data, context.per_domain * data};
}

/// Every so many of a stage's GPUs, counted over tensor-, context-, then data-parallel ranks.
RankGroup Network::every(int step, int members) const {
  const std::int64_t inner = std::int64_t{spread_.tensor} * spread_.context;
  const std::int64_t stride = spread_.rank_order == RankOrder::tp_cp_dp_pp ? inner : inner * spread_.pipeline;
  int near = 0;
  for (std::int64_t i = 0; i < members; ++i) {
    const std::int64_t at = i * step;
    if (at / inner * stride + at % inner >= cluster_.node.nvlink_domain) break;
    ++near;
  }
  return {members, std::max(1, near)};
}

RankGroup Network::expert(int split) const { return every(split, spread_.expert); }

RankGroup Network::expert_replicas(int split) const {
  if (spread_.expert == 1) return replicas();
  const int apart = spread_.expert * split;
  return every(apart, spread_.tensor * spread_.context * spread_.data / apart);
}

double Network::network_latency() const {
  const auto& given = cluster_.node.latency_us;
  return given ? *given * 1e-6 : kNetworkLatency;
}

/// Of one GPU.
double Network::network_rate() const {
  const NodeDescription& node = cluster_.node;
  return efficiency_ * node.node_gbytes.value_or(0) * kGiga / node.gpus;
}

double Network::nvlink(CollectiveKind kind, int members, double bytes) const {
  if (const auto own = measured(kind, {members, members}, bytes)) return *own;
  if (kind == CollectiveKind::all_reduce && cluster_.node.nvlink_sums)
    return all_reduce(*cluster_.node.nvlink_sums, members, bytes);
  if (table_ != nullptr) {
    if (const auto measured = table_->collective_time(kind, members, bytes)) return *measured;
  }
  const double rate = kNvlinkEfficiency * cluster_.gpu.nvlink_gbytes * kGiga;
  return kNvlinkLatency + bytes * moved(kind, members) / rate;
}

/// By a ring or, where that takes less, by switches that sum. Of n parts of its buffer a GPU then sends n, to
/// be summed, and the sum of its own part once, to all: n + 1 parts, of a gather n - 1.
/// Source: Ishii and Wells, "The NVLink-network switch", Hot Chips 34, 2022.
double Network::all_reduce(double switch_share, int members, double bytes) const {
  const double ring = nvlink(CollectiveKind::reduce_scatter, members, bytes) +
                      nvlink(CollectiveKind::all_gather, members, bytes);
  if (switch_share <= 0) return ring;
  const double gathered = bytes * (members + 1) / (members - 1) / switch_share;
  return std::min(ring, nvlink(CollectiveKind::all_gather, members, gathered));
}

double Network::collective(CollectiveKind kind, RankGroup group, double bytes) const {
  if (group.members <= 1 || bytes <= 0) return 0;
  if (group.per_domain >= group.members) return nvlink(kind, group.members, bytes);
  if (const auto own = measured(kind, group, bytes)) return *own;
  const double links =
      std::min(network_rate() * group.per_domain, kNvlinkEfficiency * cluster_.gpu.nvlink_gbytes * kGiga);
  const double hops = 2.0 * group.members / group.per_domain;
  return hops * network_latency() + bytes * moved(kind, group.members) / links;
}

double Network::expert_exchange(RankGroup group, double bytes, double experts_per_token) const {
  if (group.members <= 1) return 0;
  if (group.per_domain >= group.members) return nvlink(CollectiveKind::all_to_all, group.members, bytes);
  const double domains = static_cast<double>(group.members) / group.per_domain;
  const double visited = domains * (1 - std::pow(1 - 1 / domains, experts_per_token));
  const double outside = bytes / experts_per_token * visited * (domains - 1) / domains;
  return network_latency() * domains + outside / network_rate();
}

double Network::between(RankId a, RankId b, double bytes) const {
  return transfer(share_nvlink(std::min(a, b), std::max(a, b)), bytes);
}

double Network::transfer(bool nvlink, double bytes) const {
  const GpuGroup group{2, nvlink ? 2 : 1};
  if (const auto own = measured_seconds(measured_, MeasuredOperation::send_receive, group, bytes))
    return *own;
  if (nvlink) return kNvlinkLatency + bytes / (kNvlinkEfficiency * cluster_.gpu.nvlink_gbytes * kGiga);
  return network_latency() + bytes / network_rate();
}

double Network::to_host(double bytes) const {
  return bytes / (kNvlinkEfficiency * cluster_.gpu.host_gbytes * kGiga);
}

/// From the layout of groups over GPUs.
bool Network::share_nvlink(RankId a, RankId b) const {
  const std::int64_t inner = std::int64_t{spread_.tensor} * spread_.context;
  const std::int64_t stride = spread_.rank_order == RankOrder::tp_cp_dp_pp ? inner * spread_.data : inner;
  return a.value() * stride / cluster_.node.nvlink_domain ==
         (b.value() * stride + inner - 1) / cluster_.node.nvlink_domain;
}

}  // namespace ppsim::workload
