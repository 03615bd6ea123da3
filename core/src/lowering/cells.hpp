#pragma once

#include <cstddef>

#include "ppsim/core/ir/action.hpp"
#include "ppsim/core/ir/pipeline.hpp"

namespace ppsim::lowering {

/// Dense numbers of (stage, microbatch, slice).
[[nodiscard]] inline std::size_t cell_count(const Pipeline& pipeline) {
  return static_cast<std::size_t>(pipeline.stages()) * static_cast<std::size_t>(pipeline.microbatches()) *
         static_cast<std::size_t>(pipeline.slices());
}
/// Requires: the action has a stage and a microbatch.
[[nodiscard]] inline std::size_t cell_of(const Pipeline& pipeline, const Action& action) {
  const std::size_t row = action.stage().index() * static_cast<std::size_t>(pipeline.microbatches());
  return (row + action.mb().index()) * static_cast<std::size_t>(pipeline.slices()) + action.slice;
}

}  // namespace ppsim::lowering
