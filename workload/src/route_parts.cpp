#include "route_parts.hpp"

#include <algorithm>

namespace ppsim::workload {

RouteParts parts_of(const Pipeline& pipeline, const std::vector<StageId>& route) {
  const auto stages = static_cast<std::size_t>(pipeline.stages());
  IdVector<StageId, CollectiveId> gradients(stages);
  IdVector<StageId, CollectiveId> inputs(stages);
  for (const StageEdge& edge : pipeline.spec().edges) {
    gradients[edge.to] = std::max(gradients[edge.to], pipeline.gradient_sum(edge.from));
    inputs[edge.from] = std::max(inputs[edge.from], pipeline.input_sum(edge.to));
  }
  RouteParts parts;
  for (const StageId stage : route) {
    if (const CollectiveId sum = gradients[stage]; sum.valid()) {
      parts.output.push_back(stage);
      parts.gradient_in_forward = pipeline.spec().collectives[sum].after.kind == OpKind::forward;
    } else {
      (inputs[stage].valid() ? parts.input : parts.layers).push_back(stage);
    }
  }
  return parts;
}

}  // namespace ppsim::workload
