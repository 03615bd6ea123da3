#pragma once

#include <vector>

#include "ppsim/core/ir/pipeline.hpp"

namespace ppsim::workload {

/// The stages of a route: those with layers, and shards of the vocabulary layers, which collectives tie
/// together.
struct RouteParts {
  std::vector<StageId> layers;
  std::vector<StageId> output;       ///< their input gradients are summed for the stage that they read
  std::vector<StageId> input;        ///< their outputs are summed for the stage that reads them
  bool gradient_in_forward = false;  ///< F of an output shard makes the input gradient, too
};

/// The routes that microbatches of the batch take. What only padding takes is a part of one of them.
[[nodiscard]] std::vector<RouteId> routes_of_batch(const Pipeline& pipeline);

/// Requires: a route of the pipeline.
[[nodiscard]] RouteParts parts_of(const Pipeline& pipeline, const std::vector<StageId>& route);

}  // namespace ppsim::workload
