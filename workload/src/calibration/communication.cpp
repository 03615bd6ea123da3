#include "ppsim/workload/communication.hpp"

#include "operators/network.hpp"

namespace ppsim::workload {

double communication_seconds(const Workload& workload, MeasuredOperation operation, const GpuGroup& group,
                             double bytes) {
  const Network network(workload.cluster, workload.parallelism,
                        operator_table(workload.cluster.gpu.operators),
                        {workload.fitted, workload.calibration.collectives});
  const bool within = group.gpus_per_node >= group.gpus;
  const int nodes = (group.gpus + group.gpus_per_node - 1) / group.gpus_per_node;
  const auto collective = [&](CollectiveKind kind) {
    return network.collective(kind, {group.gpus, group.gpus_per_node, nodes}, bytes);
  };
  switch (operation) {
    case MeasuredOperation::all_gather:
      return collective(CollectiveKind::all_gather);
    case MeasuredOperation::all_reduce:
      return collective(CollectiveKind::all_reduce);
    case MeasuredOperation::all_to_all:
      return collective(CollectiveKind::all_to_all);
    case MeasuredOperation::reduce_scatter:
      return collective(CollectiveKind::reduce_scatter);
    case MeasuredOperation::send_receive:
      return network.transfer(within, bytes);
  }
  return 0;
}

}  // namespace ppsim::workload
