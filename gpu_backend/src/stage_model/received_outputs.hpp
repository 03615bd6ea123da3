#pragma once

#include <algorithm>

#include "ppsim/core/ir/pipeline.hpp"
#include "ppsim/core/ir/units.hpp"

namespace ppsim::gpu_backend {

/// How many outputs of other ranks come for a stage, at most over all routes, and not with another stage of
/// its rank; its received input has room for as many. One where a collective sums them, and where there are
/// none.
[[nodiscard]] inline Bytes received_outputs(const Pipeline& pipeline, StageId stage) {
  if (pipeline.input_sum(stage).valid()) return 1;
  std::ptrdiff_t most = 1;
  for (const MicrobatchId mb : pipeline.microbatch_ids()) {
    const auto producers = pipeline.producers(stage, mb);
    most = std::max(most, std::ranges::count_if(producers, [&](StageId producer) {
                      return pipeline.rank_of(producer) != pipeline.rank_of(stage) &&
                             pipeline.receiver(producer, stage, mb) == stage;
                    }));
  }
  return most;
}

}  // namespace ppsim::gpu_backend
