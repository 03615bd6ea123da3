#pragma once

#include <vector>

#include "attention/attention_choice.hpp"
#include "stage_kernels.hpp"

namespace ppsim::gpu_backend::cuda {

/// Behind the optimizer's state of a block: the number of updates done.
inline constexpr std::size_t kStepBytes = transformer::Arena::kAlignment;
static_assert(sizeof(std::int64_t) + kDescendFactors * sizeof(float) <= kStepBytes);

/// The sizes of the slices of a microbatch of a model whose attention is computed so.
[[nodiscard]] std::vector<Dimensions> slices_of(const TransformerConfig& config, int slices,
                                                const AttentionChoice& attention);

/// Bytes of every tensor class of the transformer on a GPU.
template <class T>
[[nodiscard]] SizeTable gpu_transformer_sizes(const TransformerConfig& config, const Pipeline& pipeline,
                                              const AttentionChoice& attention);

}  // namespace ppsim::gpu_backend::cuda
