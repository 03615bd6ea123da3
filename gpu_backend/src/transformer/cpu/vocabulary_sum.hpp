#pragma once

#include <span>

#include "ppsim/gpu_backend/stage_model/stage_model.hpp"
#include "transformer_tensors.hpp"

namespace ppsim::gpu_backend::transformer {

/// Adds up what the shards of a vocabulary bring to a collective, in the order of the parts and in the
/// arithmetic of `Policy` (transformer_arithmetic.hpp): statistics of the loss, and numbers that F made
/// before these were known, each with its own factor.
template <class Policy>
void sum_shards(const Dimensions& d, std::span<const CollectivePart> parts);

}  // namespace ppsim::gpu_backend::transformer
