#pragma once

#include "cudnn_graph.hpp"
#include "ppsim/gpu_backend/transformer/transformer.hpp"

namespace ppsim::gpu_backend::cuda {

/// Attention of a microbatch.
struct AttentionSizes {
  explicit AttentionSizes(const TransformerConfig& config)
      : sequences(config.microbatch_size),
        sequence(config.sequence),
        heads(config.heads),
        head_size(config.hidden / config.heads) {}
  [[nodiscard]] std::int64_t hidden() const { return heads * head_size; }

  std::int64_t sequences, sequence, heads, head_size;
};

/// Ids of the tensors of attention. Statistics are the logarithms of the sums of softmax; sums are scratch.
enum class AttentionTensor : std::int64_t {
  queries = 1,
  keys,
  values,
  attended,
  statistics,
  d_attended,
  sums,
  d_queries,
  d_keys,
  d_values,
  scale,      ///< a number of the host: 1 / sqrt(head size)
  forbidden,  ///< the same: the score of a token that comes later
  one,        ///< the same
};

/// Causal attention of all sequences and heads of a microbatch as cuDNN's flash attention knows it. Queries,
/// keys and values lie side by side in the rows of one matrix. Source: the order of operations is that which
/// cuDNN's engines recognise, as its frontend lays them out (github.com/NVIDIA/cudnn-frontend, sdpa).
[[nodiscard]] CudnnGraph attention_forward(const CudnnObjects& objects, const AttentionSizes& d);
/// The gradients of queries, keys and values. The product of score gradients and keys is written as it is
/// computed, not summed up by several blocks at once, and so has the same bits every time; that takes
/// workspace for all scores.
[[nodiscard]] CudnnGraph attention_backward(const CudnnObjects& objects, const AttentionSizes& d);

}  // namespace ppsim::gpu_backend::cuda
