#include "network.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

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

/// Multiples of `stride`, of which later ones repeat what these are within a domain.
std::int64_t distinct(std::int64_t stride, std::int64_t domain) { return domain / std::gcd(stride, domain); }

}  // namespace

Network::Network(const ClusterDescription& cluster, const Parallelism& parallelism,
                 const OperatorTable* table, const NetworkMeasurements& measured)
    : cluster_(cluster),
      parallelism_(parallelism),
      table_(table),
      domain_(cluster.job_domain()),
      efficiency_(measured.fitted.network_efficiency),
      measured_(measured.collectives),
      tensor_(every(1, parallelism.tensor)),
      context_(every(parallelism.tensor, parallelism.context)),
      replicas_(every(parallelism.tensor, parallelism.context * parallelism.data)) {}

std::optional<double> Network::measured(CollectiveKind kind, const RankGroup& group, double bytes) const {
  return measured_seconds(measured_, operation_of(kind), {group.members, group.per_domain}, bytes);
}

/// GPUs from one data-parallel rank to the next.
std::int64_t Network::data_stride() const {
  const std::int64_t inner = std::int64_t{parallelism_.tensor} * parallelism_.context;
  return parallelism_.rank_order == RankOrder::tp_cp_dp_pp ? inner : inner * parallelism_.pipeline;
}

std::int64_t Network::pipeline_stride() const {
  const std::int64_t inner = std::int64_t{parallelism_.tensor} * parallelism_.context;
  return parallelism_.rank_order == RankOrder::tp_cp_dp_pp ? inner * parallelism_.data : inner;
}

/// How domains cut the group of a stage that begins with its rank `first`, see every().
RankGroup Network::group_at(std::int64_t stage, std::int64_t first, int step, int members) const {
  const std::int64_t inner = std::int64_t{parallelism_.tensor} * parallelism_.context;
  RankGroup group{members, members, 0};
  std::int64_t domain = -1;
  int near = 0;
  for (int run = 0, i = 0; i < members; i += run) {
    const std::int64_t rank = first + std::int64_t{i} * step;
    const std::int64_t gpu = rank / inner * data_stride() + rank % inner + stage * pipeline_stride();
    const std::int64_t own = gpu / domain_;
    // Where the GPUs of a stage are next to each other, all that are in this domain at once.
    run = data_stride() > inner ? 1
                                : static_cast<int>(std::min<std::int64_t>(
                                      members - i, ((own + 1) * domain_ - gpu + step - 1) / step));
    if (own != domain) {
      if (group.domains > 0) group.per_domain = std::min(group.per_domain, near);
      ++group.domains;
      domain = own;
      near = 0;
    }
    near += run;
  }
  group.per_domain = std::min(group.per_domain, near);
  return group;
}

/// The worst of all groups of every so many of a stage's GPUs, counted over tensor-, context-, then
/// data-parallel ranks. Looks at those that lie differently in their domains.
RankGroup Network::every(int step, int members) const {
  if (members <= 1) return {};
  if (step >= domain_) return {members, 1, members};
  const std::int64_t inner = std::int64_t{parallelism_.tensor} * parallelism_.context;
  const std::int64_t block = std::int64_t{step} * members;
  const std::int64_t both = std::lcm(block, inner);
  const std::int64_t ranks =
      std::min(inner * parallelism_.data, both * distinct(both / inner * data_stride(), domain_));
  const std::int64_t stages =
      std::min<std::int64_t>(parallelism_.pipeline, distinct(pipeline_stride(), domain_));
  RankGroup worst{members, members, 1};
  for (std::int64_t stage = 0; stage < stages; ++stage) {
    for (std::int64_t begin = 0; begin < ranks; begin += block) {
      for (std::int64_t rank = begin; rank < std::min(begin + step, ranks); ++rank) {
        const RankGroup group = group_at(stage, rank, step, members);
        worst.per_domain = std::min(worst.per_domain, group.per_domain);
        worst.domains = std::max(worst.domains, group.domains);
      }
    }
  }
  return worst;
}

RankGroup Network::expert(int split) const { return every(split, parallelism_.expert); }

RankGroup Network::expert_replicas(int split) const {
  if (parallelism_.expert == 1) return replicas();
  const int apart = parallelism_.expert * split;
  return every(apart, parallelism_.tensor * parallelism_.context * parallelism_.data / apart);
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
  return 2.0 * group.domains * network_latency() + bytes * moved(kind, group.members) / links;
}

/// NVLink and the network work at the same time. Of the GPUs of a group those whose domain has the fewest of
/// it get the most from others, and send it back: as if all its domains had as few.
double Network::expert_exchange(RankGroup group, double bytes, double experts_per_token) const {
  if (group.members <= 1) return 0;
  const double nvlink_time = nvlink(CollectiveKind::all_to_all, group.members, bytes);
  if (group.per_domain >= group.members) return nvlink_time;
  const double domains = static_cast<double>(group.members) / group.per_domain;
  const double visited = domains * (1 - std::pow(1 - 1 / domains, experts_per_token));
  const double outside = bytes / experts_per_token * visited * (domains - 1) / domains;
  const double network_time = network_latency() * group.domains + outside / network_rate();
  return group.domains == group.members ? network_time : std::max(nvlink_time, network_time);
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

/// From the layout of groups over GPUs. Each GPU of one rank sends to its counterpart of the other.
bool Network::share_nvlink(RankId a, RankId b) const {
  const std::int64_t inner = std::int64_t{parallelism_.tensor} * parallelism_.context;
  const std::int64_t replicas = std::min<std::int64_t>(parallelism_.data, distinct(data_stride(), domain_));
  for (std::int64_t replica = 0; replica < replicas; ++replica) {
    const std::int64_t first = a.value() * pipeline_stride() + replica * data_stride();
    const std::int64_t last = b.value() * pipeline_stride() + replica * data_stride() + inner - 1;
    if (first / domain_ != last / domain_) return false;
  }
  return true;
}

}  // namespace ppsim::workload
