#pragma once

#include <cstdint>

#include "ppsim/core/ir/op_kind.hpp"
#include "ppsim/gpu_backend/transformer/transformer.hpp"
#include "transformer/pass/stage_place.hpp"

namespace ppsim::gpu_backend::transformer {

/// Does one compute action in the arithmetic of `Policy` (transformer_arithmetic.hpp); `first_sequence` is
/// that of the microbatch in this step.
template <class Policy>
void compute_stage(const StagePlace& place, const TransformerConfig& config, std::int64_t first_sequence,
                   OpKind kind);

}  // namespace ppsim::gpu_backend::transformer
