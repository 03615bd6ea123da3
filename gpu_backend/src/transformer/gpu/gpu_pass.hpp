#pragma once

#include <cstdint>

#include "ppsim/core/ir/op_kind.hpp"
#include "stage_kernels.hpp"
#include "transformer/pass/stage_place.hpp"

namespace ppsim::gpu_backend::cuda {

/// The inputs of an action's kernels other than its tensors.
struct ActionBatch {
  std::uint64_t seed;
  DrawTokens tokens;  ///< draws those of the slice
  AttentionWorkspace flash = {};
};

/// Enqueues the kernels of one compute action.
template <class T>
void compute_stage(const transformer::StagePlace& place, const StageKernels<T>& kernels,
                   const ActionBatch& batch, OpKind kind);

}  // namespace ppsim::gpu_backend::cuda
