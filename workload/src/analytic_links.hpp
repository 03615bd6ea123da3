#pragma once

#include "ppsim/core/ir/ids.hpp"
#include "ppsim/workload/cluster.hpp"
#include "ppsim/workload/parallelism.hpp"

namespace ppsim::workload {

/// The links of a GPU, each at 0.8 of its rate. Units: bytes and seconds.
class AnalyticLinks {
 public:
  AnalyticLinks(const ClusterDescription& cluster, const Parallelism& spread);

  [[nodiscard]] double nvlink_time(double bytes) const;
  [[nodiscard]] double network_time(double bytes) const;
  [[nodiscard]] double host_time(double bytes) const;
  /// Over the slower of the links between two pipeline ranks, that is NVLink where they share its domain.
  [[nodiscard]] double time_between(RankId a, RankId b, double bytes) const;

 private:
  [[nodiscard]] bool share_nvlink(RankId a, RankId b) const;

  const ClusterDescription& cluster_;
  const Parallelism& spread_;
};

}  // namespace ppsim::workload
