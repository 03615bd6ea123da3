#pragma once

#include <cmath>

#include "stage_kernels.hpp"
#include "transformer/pass/stage_place.hpp"

namespace ppsim::gpu_backend::cuda {

using transformer::Arena;

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

/// Causal attention as kernels: cuDNN's of all sequences, or products and a softmax for each.
template <class T>
class GpuAttention {
 public:
  using Sum = SumOf<T>;

  /// Requires: references that outlive it.
  GpuAttention(const Dimensions& d, const StageKernels<T>& run,
               const transformer::AttentionTensors<T, Sum>& tensors)
      : d_(d), run_(run), of_(tensors) {}

  /// `workspace` is cuDNN's.
  void forward(std::byte* workspace) {
    if (run_.flash() == nullptr) {
      for (Index s = 0; s < d_.sequences; ++s) attend(s);
      return;
    }
    run_.flash()->forward(run_.stream(), {.joint = of_.qkv.data(),
                                          .attended = of_.attended.data(),
                                          .statistics = of_.statistics.data(),
                                          .workspace = workspace});
  }
  void backward(InputScratch<T>& scratch, View<T>& d_qkv) {
    if (run_.flash() == nullptr) {
      for (Index s = 0; s < d_.sequences; ++s) attend_backward(s, scratch, d_qkv);
      return;
    }
    run_.flash()->backward(run_.stream(), {.joint = of_.qkv.data(),
                                           .attended = of_.attended.data(),
                                           .statistics = of_.statistics.data(),
                                           .d_attended = scratch.d_hidden.data(),
                                           .d_joint = d_qkv.data(),
                                           .sums = scratch.sums,
                                           .workspace = scratch.workspace});
  }

 private:
  [[nodiscard]] float factor() const { return 1 / std::sqrt(static_cast<float>(d_.head_size)); }

  /// Where the queries (kind 0), keys or values of a slice of a sequence begin.
  static T* part(const View<T>& joint, const Dimensions& d, Index sequence, Index kind) {
    return const_cast<T*>(joint.data()) + sequence * d.length * joint.cols() + kind * d.hidden;
  }
  /// The scores of a sequence, from the column of the token that follows `before` others.
  T* scores_of(Index sequence, Index before = 0) {
    return of_.scores.data() + sequence * d_.heads * d_.length * d_.keys() + before;
  }

  /// The keys and values of a slice in one sequence, and what is multiplied with them.
  struct Attended {
    AttentionShapes shapes;
    const T* keys;
    const T* values;
  };
  Attended attended(std::size_t slice, Index sequence) const {
    const Dimensions& of = of_.slices.all()[slice];
    const View<T> joint = slice == of_.slices.own() ? of_.qkv : of_.slices.joint(slice);
    return {AttentionShapes(d_, of), part(joint, of, sequence, 1), part(joint, of, sequence, 2)};
  }

  void attend(Index s) {
    const auto slices = of_.slices.all();
    for (std::size_t k = 0; k < slices.size(); ++k) {
      const Attended of = attended(k, s);
      run_.product(of.shapes.scores, part(of_.qkv, d_, s, 0), of.keys, scores_of(s, slices[k].before));
    }
    run_.run(run_.table().causal_softmax,
             CausalSoftmax{d_.heads, d_.length, d_.keys(), factor(), scores_of(s)}, "a softmax");
    for (std::size_t k = 0; k < slices.size(); ++k) {
      const Attended of = attended(k, s);
      run_.product(of.shapes.attended, scores_of(s, slices[k].before), of.values,
                   part(of_.attended, d_, s, 0));
    }
  }

  void attend_backward(Index s, InputScratch<T>& scratch, View<T>& d_qkv) {
    const auto slices = of_.slices.all();
    T* const d_attended = part(scratch.d_hidden, d_, s, 0);
    T* const d_scores = scratch.d_scores.data();
    for (std::size_t k = 0; k < slices.size(); ++k) {
      const Attended of = attended(k, s);
      run_.product(of.shapes.d_scores, d_attended, of.values, d_scores + slices[k].before);
    }
    run_.run(run_.table().causal_softmax_backward,
             CausalSoftmaxBackward{d_.heads, d_.length, d_.keys(), factor(), scores_of(s), d_scores},
             "the gradient of a softmax");
    for (std::size_t k = 0; k < slices.size(); ++k) {
      const Attended of = attended(k, s);
      const T* const d_pairs = d_scores + slices[k].before;
      const Gradients to = gradients(of.shapes, k, s, d_qkv);
      run_.product(of.shapes.d_values, scores_of(s, slices[k].before), d_attended, to.values);
      run_.product(of.shapes.d_queries, d_pairs, of.keys, part(d_qkv, d_, s, 0));
      run_.product(of.shapes.d_keys, d_pairs, part(of_.qkv, d_, s, 0), to.keys);
    }
    if (!of_.slices.is_last()) take_gradients(s, d_qkv);
  }

  /// Where the gradients of keys and values of a slice go.
  struct Gradients {
    void* keys;
    void* values;
  };
  Gradients gradients(const AttentionShapes& shapes, std::size_t slice, Index s, View<T>& d_qkv) const {
    if (!shapes.d_keys.into_sums) return {part(d_qkv, d_, s, 1), part(d_qkv, d_, s, 2)};
    Sum* const to = sums(slice, s);
    return {to, to + d_.hidden};
  }
  /// The sums for the keys of a slice in one sequence, with those for the values beside them.
  Sum* sums(std::size_t slice, Index sequence) const {
    View<Sum> all = of_.slices.gradients();
    return all.data() + (sequence * of_.slices.stride() + of_.slices.all()[slice].before) * all.cols();
  }
  /// The sums for the slice itself, to which this was the last to add.
  void take_gradients(Index s, View<T>& d_qkv) const {
    run_.run(
        run_.table().store_sums,
        StoreSums{d_.length, 2 * d_.hidden, sums(of_.slices.own(), s), part(d_qkv, d_, s, 1), d_qkv.cols()},
        "the gradient of keys and values");
  }

  const Dimensions& d_;
  const StageKernels<T>& run_;
  transformer::AttentionTensors<T, Sum> of_;
};

}  // namespace ppsim::gpu_backend::cuda
