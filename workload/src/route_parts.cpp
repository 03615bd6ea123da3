#include "route_parts.hpp"

#include <algorithm>

#include "ppsim/core/ir/padding.hpp"
#include "ppsim/core/ir/sequences.hpp"

namespace ppsim::workload {

std::vector<RouteId> routes_of_batch(const Pipeline& pipeline) {
  std::vector<RouteId> routes;
  for (const MicrobatchId mb : pipeline.microbatch_ids()) {
    if (!is_padding(pipeline, mb)) routes.push_back(pipeline.route_of(mb));
  }
  sort_unique(routes);
  return routes;
}

RouteParts parts_of(const Pipeline& pipeline, const std::vector<StageId>& route) {
  const auto stages = as_size(pipeline.stages());
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
