#pragma once

#include "kernel_table.hpp"

/// The launchers, one file for each part of a stage.
namespace ppsim::gpu_backend::cuda {

int norm_forward(void* stream, Stored stored, const NormForward& call);
int apply_gain(void* stream, Stored stored, const ApplyGain& call);
int norm_backward(void* stream, Stored stored, const NormBackward& call);

int causal_softmax(void* stream, Stored stored, const CausalSoftmax& call);
int causal_softmax_backward(void* stream, Stored stored, const CausalSoftmaxBackward& call);
int store_sums(void* stream, Stored stored, const StoreSums& call);
int gate(void* stream, Stored stored, const Gate& call);
int gate_backward(void* stream, Stored stored, const GateBackward& call);
int ring_product(void* stream, const RingProduct& call);

int find_scale(void* stream, const FindScale& call);
int quantize(void* stream, const Quantize& call);

int draw_tokens(void* stream, const DrawTokens& call);
int write_number(void* stream, const WriteNumber& call);
int embed(void* stream, Stored stored, const Embed& call);
int embed_backward(void* stream, Stored stored, const EmbedBackward& call);
int loss(void* stream, Stored stored, const Loss& call);

int open_loss(void* stream, Stored stored, const OpenLoss& call);
int close_loss(void* stream, Stored stored, const CloseLoss& call);
int target_weights(void* stream, Stored stored, const TargetWeights& call);
int merge_loss(void* stream, Stored stored, const MergeLoss& call);
int sum_parts(void* stream, Stored stored, const SumParts& call);

int accumulate(void* stream, Stored stored, const Accumulate& call);
int squared_norm(void* stream, Stored stored, const SquaredNorm& call);
int add_norm(void* stream, const AddNorm& call);
int draw_weights(void* stream, Stored stored, const DrawWeights& call);
int start_state(void* stream, Stored stored, const StartState& call);
int descend(void* stream, Stored stored, const Descend& call);

}  // namespace ppsim::gpu_backend::cuda
