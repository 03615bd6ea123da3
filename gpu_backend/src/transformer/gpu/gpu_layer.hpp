#pragma once

#include <cmath>

#include "ppsim/gpu_backend/stage_model/stage_model.hpp"
#include "stage_kernels.hpp"

namespace ppsim::gpu_backend::cuda {

using transformer::LayerForInput;
using transformer::LayerForWeight;
using transformer::LayerInner;
using transformer::LayerWeights;

/// The state that one layer of a stage shares with other slices of its microbatch: the keys and values of
/// those before, which lie in what these have saved, and the sums of gradients that go from slice to slice.
template <class T>
class AttendedSlices {
 public:
  using Sum = SumOf<T>;

  /// All slices of a microbatch on a stage. Requires: references that outlive it.
  struct Place {
    std::span<const Dimensions> slices;
    const StageRole& role;
    const ActionBuffers& buffers;
  };
  AttendedSlices(const Place& place, int layer) : place_(place), layer_(layer) {}

  /// The slices that this one reads; it is the last of them.
  [[nodiscard]] std::span<const Dimensions> all() const { return place_.slices.first(own() + 1); }
  [[nodiscard]] std::size_t own() const { return static_cast<std::size_t>(place_.buffers.slice); }
  [[nodiscard]] bool is_last() const { return own() + 1 == place_.slices.size(); }

  /// The joint projection of queries, keys and values of a slice before this one.
  [[nodiscard]] View<T> joint(std::size_t slice) const {
    transformer::Arena arena(place_.buffers.earlier[slice]);
    return transformer::StageForInput<T, Sum>(arena, place_.slices[slice], place_.role).layers[layer_].qkv;
  }
  /// The sums for the keys of a slice in one sequence, with those for the values beside them. Requires: not
  /// the last slice.
  [[nodiscard]] Sum* gradients(std::size_t slice, Index sequence) const {
    transformer::Arena arena(place_.buffers.kv_gradient);
    const Dimensions& last = place_.slices.back();
    const transformer::PerLayer<transformer::LayerKvGradient<Sum>> layers(arena, last, place_.role.layers);
    const View<Sum> sums = layers[layer_].keys_and_values;
    const Index row = sequence * last.before + place_.slices[slice].before;
    return const_cast<Sum*>(sums.data()) + row * sums.cols();
  }

 private:
  Place place_;
  int layer_;
};

/// Temporary tensors of I: as on the CPU, but the scores of all heads of one sequence, or what cuDNN's
/// attention needs, and what a loss needs that shards of the head take together.
template <class T>
struct InputScratch {
  InputScratch(transformer::Arena& arena, const Dimensions& d, const StageRole& role,
               const AttentionWorkspace& flash)
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

/// Temporary tensors of W: as on the CPU, and the order of rows by tokens.
template <class T>
struct WeightScratch {
  WeightScratch(transformer::Arena& arena, const Dimensions& d, const StageRole& role)
      : tensors(arena, d, role),
        token_order(arena.take<std::int32_t>(role.embedding ? token_workspace(d.rows) : 0)) {}

  transformer::WeightTensors<T> tensors;
  std::int32_t* token_order;
};

/// An RMSNorm in use, on a stream.
template <class T>
struct GpuNorm {
  using Sum = SumOf<T>;
  const StageKernels<T>& run;
  View<T> gain, unit;
  View<Sum> scale;

  void forward(const View<T>& x, View<T>& result) const {
    run.run(run.table().norm_forward,
            NormForward{x.rows(), x.cols(), x.data(), gain.data(), const_cast<T*>(unit.data()),
                        const_cast<Sum*>(scale.data()), result.data()},
            "a norm");
  }
  void apply_gain(View<T>& result) const {
    run.run(run.table().apply_gain,
            ApplyGain{unit.rows(), unit.cols(), unit.data(), gain.data(), result.data()}, "a norm's gain");
  }
  /// Adds the gradient of x to `d_x` and writes the gradient of the gain.
  void backward(const View<T>& d_result, View<Sum>& d_gain, View<T>& d_x, Sum* partials) const {
    run.run(run.table().norm_backward,
            NormBackward{unit.rows(), unit.cols(), unit.data(), scale.data(), gain.data(), d_result.data(),
                         partials, d_gain.data(), d_x.data()},
            "the gradient of a norm");
  }
};

/// The parameters and saved activations of one layer.
template <class T>
struct GpuLayerTensors {
  LayerWeights<T> weights;
  LayerForInput<T, SumOf<T>> for_input;
  LayerForWeight<T> for_weight;
  AttendedSlices<T> slices;
};

/// One layer of a stage as kernels: the same computation as transformer::Layer.
template <class T>
class GpuLayer {
 public:
  using Sum = SumOf<T>;

  GpuLayer(const Dimensions& d, const StageKernels<T>& run, const GpuLayerTensors<T>& tensors)
      : d_(d),
        run_(run),
        weights_(tensors.weights),
        for_input_(tensors.for_input),
        for_weight_(tensors.for_weight),
        slices_(tensors.slices) {}

  /// `normed` and `flash_workspace` are workspace.
  void forward(View<T>& stream, View<T>& normed, std::byte* flash_workspace) {
    attention_norm().forward(stream, normed);
    run_.forward(normed, weights_.qkv, for_input_.qkv);
    if (run_.flash() != nullptr) {
      run_.flash()->forward(run_.stream(), {.joint = for_input_.qkv.data(),
                                            .attended = for_weight_.attended.data(),
                                            .statistics = for_input_.statistics.data(),
                                            .workspace = flash_workspace});
    } else {
      for (Index s = 0; s < d_.sequences; ++s) attend(s);
    }
    run_.forward(for_weight_.attended, weights_.projection, stream, true);
    mlp_norm().forward(stream, normed);
    run_.forward(normed, weights_.gate_up, for_input_.gate_up);
    run_.run(run_.table().gate,
             Gate{d_.rows, d_.ffn, for_input_.gate_up.data(), for_weight_.activated.data()},
             "the gate of an MLP");
    run_.forward(for_weight_.activated, weights_.down, stream, true);
  }

  void backward_input(const View<T>& d_output, LayerInner<T, Sum>& inner, InputScratch<T>& scratch,
                      View<T>& d_input) {
    run_.backward_input(d_output, weights_.down, scratch.d_activated);
    run_.run(run_.table().gate_backward,
             GateBackward{d_.rows, d_.ffn, for_input_.gate_up.data(), scratch.d_activated.data(),
                          inner.d_gate_up.data()},
             "the gradient of an MLP's gate");
    run_.backward_input(inner.d_gate_up, weights_.gate_up, scratch.d_hidden);
    run_.copy(d_output, inner.d_middle);
    mlp_norm().backward(scratch.d_hidden, inner.d_mlp_gain, inner.d_middle, scratch.gain_partials);
    run_.backward_input(inner.d_middle, weights_.projection, scratch.d_hidden);
    if (run_.flash() != nullptr) {
      run_.flash()->backward(run_.stream(), {.joint = for_input_.qkv.data(),
                                             .attended = for_weight_.attended.data(),
                                             .statistics = for_input_.statistics.data(),
                                             .d_attended = scratch.d_hidden.data(),
                                             .d_joint = inner.d_qkv.data(),
                                             .sums = scratch.sums,
                                             .workspace = scratch.workspace});
    } else {
      for (Index s = 0; s < d_.sequences; ++s) attend_backward(s, scratch, inner.d_qkv);
    }
    run_.backward_input(inner.d_qkv, weights_.qkv, scratch.d_hidden);
    run_.copy(inner.d_middle, d_input);
    attention_norm().backward(scratch.d_hidden, inner.d_attention_gain, d_input, scratch.gain_partials);
  }

  /// `normed` is workspace.
  void backward_weight(const LayerInner<T, Sum>& inner, const View<T>& d_output, View<T>& normed,
                       LayerWeights<Sum> gradients) const {
    run_.backward_weight(for_weight_.activated, d_output, gradients.down);
    mlp_norm().apply_gain(normed);
    run_.backward_weight(normed, inner.d_gate_up, gradients.gate_up);
    run_.add(inner.d_mlp_gain, gradients.mlp_gain);
    run_.backward_weight(for_weight_.attended, inner.d_middle, gradients.projection);
    attention_norm().apply_gain(normed);
    run_.backward_weight(normed, inner.d_qkv, gradients.qkv);
    run_.add(inner.d_attention_gain, gradients.attention_gain);
  }

 private:
  GpuNorm<T> attention_norm() const {
    return {run_, weights_.attention_gain, for_weight_.attention_unit, for_input_.attention_scale};
  }
  GpuNorm<T> mlp_norm() const {
    return {run_, weights_.mlp_gain, for_weight_.mlp_unit, for_input_.mlp_scale};
  }
  [[nodiscard]] float factor() const { return 1 / std::sqrt(static_cast<float>(d_.head_size)); }

  /// Where the queries (kind 0), keys or values of a slice of a sequence begin.
  static T* part(const View<T>& joint, const Dimensions& d, Index sequence, Index kind) {
    return const_cast<T*>(joint.data()) + sequence * d.length * joint.cols() + kind * d.hidden;
  }
  /// The scores of a sequence, from the column of the token that follows `before` others.
  T* scores_of(Index sequence, Index before = 0) {
    return for_input_.scores.data() + sequence * d_.heads * d_.length * d_.keys() + before;
  }

  /// The keys and values of a slice in one sequence, and what is multiplied with them.
  struct Attended {
    AttentionShapes shapes;
    const T* keys;
    const T* values;
  };
  Attended attended(std::size_t slice, Index sequence) const {
    const Dimensions& of = slices_.all()[slice];
    const View<T> joint = slice == slices_.own() ? for_input_.qkv : slices_.joint(slice);
    return {AttentionShapes(d_, of), part(joint, of, sequence, 1), part(joint, of, sequence, 2)};
  }

  void attend(Index s) {
    const auto slices = slices_.all();
    for (std::size_t k = 0; k < slices.size(); ++k) {
      const Attended of = attended(k, s);
      run_.product(of.shapes.scores, part(for_input_.qkv, d_, s, 0), of.keys, scores_of(s, slices[k].before));
    }
    run_.run(run_.table().causal_softmax,
             CausalSoftmax{d_.heads, d_.length, d_.keys(), factor(), scores_of(s)}, "a softmax");
    for (std::size_t k = 0; k < slices.size(); ++k) {
      const Attended of = attended(k, s);
      run_.product(of.shapes.attended, scores_of(s, slices[k].before), of.values,
                   part(for_weight_.attended, d_, s, 0));
    }
  }

  void attend_backward(Index s, InputScratch<T>& scratch, View<T>& d_qkv) {
    const auto slices = slices_.all();
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
      run_.product(of.shapes.d_keys, d_pairs, part(for_input_.qkv, d_, s, 0), to.keys);
    }
    if (!slices_.is_last()) take_gradients(s, d_qkv);
  }

  /// Where the gradients of keys and values of a slice go.
  struct Gradients {
    void* keys;
    void* values;
  };
  Gradients gradients(const AttentionShapes& shapes, std::size_t slice, Index s, View<T>& d_qkv) const {
    if (!shapes.d_keys.into_sums) return {part(d_qkv, d_, s, 1), part(d_qkv, d_, s, 2)};
    Sum* const sums = slices_.gradients(slice, s);
    return {sums, sums + d_.hidden};
  }
  /// The sums for the slice itself, to which this was the last to add.
  void take_gradients(Index s, View<T>& d_qkv) const {
    run_.run(run_.table().store_sums,
             StoreSums{d_.length, 2 * d_.hidden, slices_.gradients(slices_.own(), s), part(d_qkv, d_, s, 1),
                       d_qkv.cols()},
             "the gradient of keys and values");
  }

  const Dimensions& d_;
  const StageKernels<T>& run_;
  LayerWeights<T> weights_;
  LayerForInput<T, Sum> for_input_;
  LayerForWeight<T> for_weight_;
  AttendedSlices<T> slices_;
};

}  // namespace ppsim::gpu_backend::cuda
