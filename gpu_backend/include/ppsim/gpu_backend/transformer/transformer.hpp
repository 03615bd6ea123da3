#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "ppsim/core/ir/error.hpp"
#include "ppsim/gpu_backend/stage_model/stage_model.hpp"

namespace ppsim::gpu_backend {

/// The kind of numbers of a model.
enum class Arithmetic : std::uint8_t {
  float32,        ///< the model as it is trained
  float64,        ///< the same in double precision, to check gradients by finite differences
  integer_exact,  ///< integers modulo 2^64, where sums do not depend on their order
  bf16,           ///< the model as it is trained on GPUs, with sums in float32; not on a CPU
  fp8,            ///< bf16, with the layers' products of weights in fp8; not on a CPU
};

/// The rule by which an OPT makes new parameters.
enum class Optimizer : std::uint8_t {
  momentum,  ///< gradient descent with momentum
  adamw,     ///< Loshchilov, Hutter, "Decoupled weight decay regularization", ICLR 2019; real numbers only
};

/// The kernels of attention on a GPU. The CPU has but one way.
enum class AttentionKernels : std::uint8_t {
  automatic,  ///< cuDNN's where it can, else GEMMs
  cudnn,      ///< cuDNN's flash attention, which saves no probabilities; bf16 and fp8 only
  gemm,       ///< batched products and a softmax of our own
};

/// A small decoder-only transformer and how it is trained.
struct TransformerConfig {
  int layers = 4;
  int hidden = 64;
  int heads = 4;  ///< divides hidden
  int ffn = 128;  ///< width of the gated MLP
  int vocab = 128;
  int sequence = 32;        ///< tokens of one sequence
  int microbatch_size = 1;  ///< sequences of one microbatch
  Arithmetic arithmetic = Arithmetic::float32;
  std::uint64_t seed = 1;  ///< of parameters and tokens
  Optimizer optimizer = Optimizer::momentum;
  double learning_rate = 0.05;  ///< not used in integer_exact
  double momentum = 0.9;        ///< and the first beta of AdamW; not used in integer_exact
  double second_beta = 0.95;    ///< of AdamW
  double weight_decay = 0.01;   ///< of AdamW
  AttentionKernels attention = AttentionKernels::automatic;
  std::vector<int> slice_lengths;  ///< tokens of each slice of a sequence that is cut; empty: cut evenly
};

/// The transformer, cut into as many stages as the route of a microbatch has: token and position embedding on
/// its first stage, final norm, head and loss on its last, the layers spread evenly. Parameters depend on the
/// layer alone, and those of a token on the token, so every cut gives the same model, and every number of
/// stages in every arithmetic the same gradients bit by bit.
///
/// A layer is RMSNorm, causal attention, residual, RMSNorm, SiLU-gated MLP, residual; the loss is the
/// cross-entropy of the next token, averaged over the positions of a microbatch and summed over microbatches.
/// In integer_exact a norm is its gain alone, scores are their own softmax, SiLU is the cube and the loss an
/// inner product with fixed numbers: every gradient is that of the function computed, without rounding.
///
/// The model runs paths of stages, one route or several, with one parameter block per stage. Stages may
/// share a block where they are the same piece of the model. All stages with embedding or head may own a
/// second block, which then has the weights of tokens for both. A stage that further edges lead to adds up
/// what it gets. A sequence may be cut into slices; a slice reads the keys and values of those before it from
/// their saved activations, so that no R, OFFLOAD or SEND_A may take these away.
///
/// The vocabulary may be cut: in front of the chain stand shards of the embedding, the first with
/// the positions, whose outputs a collective sums, and after it, which then ends with the final norm, shards
/// of the head. One collective brings the statistics of their loss together between F and B, that one or
/// another behind B sums the gradient of their input. No R, OFFLOAD or SEND_A may take away what shards of
/// the head save.
///
/// Buffers start on 64-byte boundaries and are at least as large as sizes() says. F may have no saved
/// activations where R follows. B needs no inner gradients. An OVERLAP_F_B is computed as its F and its B.
/// Errors: bad_argument naming every field out of its domain.
[[nodiscard]] Expected<std::unique_ptr<CpuStageModel>> make_transformer(const TransformerConfig& config);

}  // namespace ppsim::gpu_backend

namespace ppsim {
using gpu_backend::Arithmetic;
using gpu_backend::AttentionKernels;
using gpu_backend::make_transformer;
using gpu_backend::Optimizer;
using gpu_backend::TransformerConfig;
}  // namespace ppsim
