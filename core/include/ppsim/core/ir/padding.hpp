#pragma once

#include <algorithm>
#include <span>

#include "ppsim/core/ir/pipeline.hpp"

namespace ppsim {

/// Whether a microbatch is padding: it feeds no update (`PipelineSpec::update` is -1). It is computed, sent
/// and kept as any other, on data that nobody reads, and adds to no gradient: what SPMD does in its bubbles.
[[nodiscard]] inline bool is_padding(const Pipeline& pipeline, MicrobatchId mb) {
  return pipeline.spec().update[mb] < 0;
}

/// The microbatches of the batch: those that are no padding.
[[nodiscard]] inline int batch_microbatches(const Pipeline& pipeline) {
  const auto& update = pipeline.spec().update;
  return static_cast<int>(std::ranges::count_if(update, [](int of) { return of >= 0; }));
}

/// Whether an action computes for padding.
[[nodiscard]] inline bool is_padding(const Pipeline& pipeline, const Action& action) {
  return info(action.kind).microbatch == MicrobatchUse::required && is_padding(pipeline, action.mb());
}

/// Whether all actions of an instruction compute for padding.
[[nodiscard]] inline bool is_padding(const Pipeline& pipeline, std::span<const Action> actions) {
  return std::ranges::all_of(actions, [&](const Action& action) { return is_padding(pipeline, action); });
}

}  // namespace ppsim
