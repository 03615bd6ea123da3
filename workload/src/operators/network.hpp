#pragma once

#include <span>

#include "operator_times.hpp"
#include "ppsim/core/ir/ids.hpp"
#include "ppsim/workload/calibration.hpp"
#include "ppsim/workload/cluster.hpp"
#include "ppsim/workload/constants.hpp"
#include "ppsim/workload/parallelism.hpp"

namespace ppsim::workload {

/// GPUs that take part in a collective, and how NVLink domains cut them: of many such groups, as the worst.
struct RankGroup {
  int members = 1;
  int per_domain = 1;  ///< the fewest of any domain
  int domains = 1;     ///< the most
};

/// Constants fitted to measured steps, and measurements of this cluster, which must outlive its user.
struct NetworkMeasurements {
  FittedConstants fitted = {};
  std::span<const MeasuredCollective> collectives = {};
};

/// Times of communication between GPUs of a cluster. Units: bytes and seconds.
///
/// A collective takes what was measured of it on this cluster, else within an NVLink domain what was measured
/// of it on such GPUs; across domains latency and bytes over the links of its members into the network, which
/// all groups of a node share evenly.
class Network {
 public:
  Network(const ClusterDescription& cluster, const Parallelism& parallelism, const OperatorTable* table,
          const NetworkMeasurements& measured = {});

  // Groups of a kind are those of all stages and replicas: a step waits for the worst one.
  [[nodiscard]] const RankGroup& tensor() const { return tensor_; }
  [[nodiscard]] const RankGroup& context() const { return context_; }
  /// Of replicas of a parameter: data- and context-parallel ranks.
  [[nodiscard]] const RankGroup& replicas() const { return replicas_; }
  /// Over tensor-, context- and data-parallel ranks, innermost first; every `split` of them where so many
  /// share an expert.
  [[nodiscard]] RankGroup expert(int split) const;
  /// Of replicas of an expert: every so many GPUs of those ranks as have one copy of all experts.
  [[nodiscard]] RankGroup expert_replicas(int split) const;

  /// `bytes` of the whole buffer of a member: gathered, reduced, to be scattered or exchanged.
  [[nodiscard]] double collective(CollectiveKind kind, RankGroup group, double bytes) const;
  /// To the experts of each token and back is two of these. `bytes` as if every copy of a token travelled by
  /// itself; into another domain it goes once, however many of its experts are there, and NVLink hands it on.
  [[nodiscard]] double expert_exchange(RankGroup group, double bytes, double experts_per_token) const;
  /// Over the slowest of the links between two pipeline ranks, that is NVLink where they share its domain in
  /// every replica.
  [[nodiscard]] double between(RankId a, RankId b, double bytes) const;
  /// Of one message, by NVLink or the network.
  [[nodiscard]] double transfer(bool nvlink, double bytes) const;
  /// To host memory, and from it.
  [[nodiscard]] double to_host(double bytes) const;

 private:
  [[nodiscard]] std::int64_t data_stride() const;
  [[nodiscard]] std::int64_t pipeline_stride() const;
  [[nodiscard]] RankGroup every(int step, int members) const;
  [[nodiscard]] RankGroup group_at(std::int64_t stage, std::int64_t first, int step, int members) const;
  [[nodiscard]] bool share_nvlink(RankId a, RankId b) const;
  [[nodiscard]] double nvlink(CollectiveKind kind, int members, double bytes) const;
  [[nodiscard]] double all_reduce(double switch_share, int members, double bytes) const;
  [[nodiscard]] std::optional<double> measured(CollectiveKind kind, const RankGroup& group,
                                               double bytes) const;
  [[nodiscard]] double network_rate() const;
  [[nodiscard]] double network_latency() const;

  const ClusterDescription& cluster_;
  const Parallelism& parallelism_;
  const OperatorTable* table_;
  std::int64_t domain_;  ///< GPUs of the job that NVLink connects
  double efficiency_;    ///< of the links into the network
  std::span<const MeasuredCollective> measured_;
  RankGroup tensor_;
  RankGroup context_;
  RankGroup replicas_;
};

}  // namespace ppsim::workload
