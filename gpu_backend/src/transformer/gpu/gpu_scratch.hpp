#pragma once

#include "stage_kernels.hpp"
#include "transformer/pass/stage_place.hpp"

namespace ppsim::gpu_backend::cuda {

using transformer::Arena;

/// The tensors that F saves for W: as on the CPU, and on a shard of the head its targets, which are drawn
/// once.
template <class T>
struct GpuForWeight : transformer::StageForWeight<T, SumOf<T>, SumOf<T>> {
  GpuForWeight(Arena& arena, const Dimensions& d, const StageRole& role, bool shared = false)
      : transformer::StageForWeight<T, SumOf<T>, SumOf<T>>(arena, d, role, shared),
        targets(arena.take<std::int32_t>(role.is_head_shard() ? d.rows : 0)) {}

  std::int32_t* targets;
};

/// Temporary tensors of F and R: as on the CPU, and what the loss and cuDNN need.
template <class T>
struct GpuForwardScratch : transformer::ForwardTensors<T, SumOf<T>, SumOf<T>> {
  using Base = transformer::ForwardTensors<T, SumOf<T>, SumOf<T>>;
  struct Own : Base::Own {
    AttentionWorkspace flash;
  };
  GpuForwardScratch(Arena& arena, const Dimensions& d, const StageRole& role, const Own& own)
      : Base(arena, d, role, own),
        targets(arena.take<std::int32_t>(role.head && !role.is_head_shard() ? d.rows : 0)),
        row_losses(arena.take<SumOf<T>>(role.head && !role.is_head_shard() ? d.rows : 0)),
        workspace(arena.take_bytes(role.layers > 0 ? own.flash.forward : 0).data()) {}

  std::int32_t* targets;
  SumOf<T>* row_losses;
  std::byte* workspace;  ///< of cuDNN
};

/// Temporary tensors of W: as on the CPU, and the order of rows by tokens.
template <class T>
struct GpuWeightScratch : transformer::WeightTensors<T> {
  GpuWeightScratch(Arena& arena, const Dimensions& d, const StageRole& role)
      : transformer::WeightTensors<T>(arena, d, role),
        token_order(arena.take<std::int32_t>(role.embedding ? token_workspace(d.rows) : 0)) {}

  std::int32_t* token_order;
};

/// Temporary tensors of I: as on the CPU, but the scores of all heads of one sequence, or what cuDNN's
/// attention needs, and what a loss needs that shards of the head take together.
template <class T>
struct InputScratch {
  InputScratch(Arena& arena, const Dimensions& d, const StageRole& role, const AttentionWorkspace& flash)
      : d_activated(arena.take_matrix<T>(role.layers > 0 ? d.rows : 0, d.ffn)),
        d_hidden(arena.take_matrix<T>(role.has_norm() ? d.rows : 0, d.hidden)),
        d_scores(arena.take_matrix<T>(role.layers > 0 ? d.heads * d.length : 0, d.saved_scores())),
        sums(arena.take<SumOf<T>>(role.layers > 0 && d.saves_statistics ? d.rows * d.heads : 0)),
        workspace(arena.take_bytes(role.layers > 0 ? flash.backward : 0).data()),
        row_losses(arena.take<SumOf<T>>(role.is_head_shard() && role.has_loss() ? d.rows : 0)),
        gain_partials(arena.take<SumOf<T>>(role.has_norm() ? gain_chunks(d.rows) * d.hidden : 0)) {}

  View<T> d_activated, d_hidden, d_scores;
  SumOf<T>* sums;
  std::byte* workspace;  ///< of cuDNN
  SumOf<T>* row_losses;
  SumOf<T>* gain_partials;
};

}  // namespace ppsim::gpu_backend::cuda
