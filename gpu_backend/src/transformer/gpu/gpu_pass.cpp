#include "gpu_pass.hpp"

#include <cmath>

#include "gpu_scratch.hpp"
#include "transformer/pass/stage_pass.hpp"

namespace ppsim::gpu_backend::cuda {
namespace {

using transformer::EarlyGradient;
using transformer::NormGradients;
using transformer::NormTensors;
using transformer::StagePlace;
using transformer::StageWeights;

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

/// The operations of one compute action as kernels on its stream.
template <class T>
class GpuOps : public StageKernels<T> {
 public:
  using Number = T;
  using Sum = SumOf<T>;
  using Loss = Sum;
  using ForWeight = GpuForWeight<T>;
  using ForwardScratch = GpuForwardScratch<T>;
  using InputScratch = cuda::InputScratch<T>;
  using WeightScratch = GpuWeightScratch<T>;
  using Norm = NormTensors<T, Sum>;
  using Run = StageKernels<T>;
  using Run::draw_tokens;
  using Run::run;
  using Run::table;

  /// Requires: references that outlive it.
  GpuOps(const StagePlace& place, const Run& kernels, const ActionBatch& batch)
      : Run(kernels),
        place_(place),
        role_(place_.role),
        d_(place_.d()),
        own_(vocabulary_of(d_, role_)),
        batch_(batch) {}

  [[nodiscard]] const StagePlace& place() const { return place_; }
  ForwardScratch forward_scratch(Arena& workspace, const typename ForwardScratch::Base::Own& own) const {
    return {workspace, d_, role_, typename ForwardScratch::Own{own, batch_.flash}};
  }
  InputScratch input_scratch(Arena& workspace) const { return {workspace, d_, role_, batch_.flash}; }
  WeightScratch weight_scratch(Arena& workspace) const { return {workspace, d_, role_}; }

  void norm(const Norm& of, const View<T>& x, View<T>& y) const {
    run(table().norm_forward,
        NormForward{x.rows(), x.cols(), x.data(), of.gain.data(), const_cast<T*>(of.unit.data()),
                    const_cast<Sum*>(of.scale.data()), y.data()},
        "a norm");
  }
  void apply_gain(const Norm& of, View<T>& y) const {
    run(table().apply_gain,
        ApplyGain{of.unit.rows(), of.unit.cols(), of.unit.data(), of.gain.data(), y.data()}, "a norm's gain");
  }
  void norm_backward(const Norm& of, const View<T>& d_y, const NormGradients<T, Sum>& to,
                     InputScratch& scratch) const {
    run(table().norm_backward,
        NormBackward{of.unit.rows(), of.unit.cols(), of.unit.data(), of.scale.data(), of.gain.data(),
                     d_y.data(), to.residual == nullptr ? nullptr : to.residual->data(),
                     scratch.gain_partials, to.d_gain.data(), to.d_x.data()},
        "the gradient of a norm");
  }

  void attend(const transformer::AttentionTensors<T, Sum>& tensors, ForwardScratch& scratch) const {
    GpuAttention<T>(d_, *this, tensors).forward(scratch.workspace);
  }
  void attend_backward(const transformer::AttentionTensors<T, Sum>& tensors, InputScratch& scratch,
                       View<T>& d_qkv) const {
    GpuAttention<T>(d_, *this, tensors).backward(scratch, d_qkv);
  }

  void gate(const View<T>& gate_up, View<T>& activated) const {
    run(table().gate, Gate{d_.rows, d_.ffn, gate_up.data(), activated.data()}, "the gate of an MLP");
  }
  void gate_backward(const View<T>& gate_up, const View<T>& d_activated, View<T>& d_gate_up) const {
    run(table().gate_backward,
        GateBackward{d_.rows, d_.ffn, gate_up.data(), d_activated.data(), d_gate_up.data()},
        "the gradient of an MLP's gate");
  }

  void embed(const View<T>& rows_of_tokens, const View<T>& of_positions, View<T>& stream) const {
    run(table().embed,
        Embed{d_.rows, d_.length, d_.hidden, own_.first, own_.count, tokens(), rows_of_tokens.data(),
              positions(of_positions), stream.data()},
        "the embedding");
  }
  void embed_backward(const View<T>& d_stream, View<Sum>& d_tokens, View<Sum>& d_positions,
                      WeightScratch& scratch) const {
    run(table().embed_backward,
        EmbedBackward{d_.rows, d_.length, d_.hidden, own_.first, own_.count, tokens(), d_stream.data(),
                      scratch.token_order, d_tokens.data(), const_cast<Sum*>(positions(d_positions))},
        "the gradient of the embedding");
  }

  void take_loss(const ForWeight& saved, ForwardScratch& scratch) const {
    draw_targets(scratch.targets);
    View<T> logits = saved.d_logits;
    run(table().loss,
        cuda::Loss{d_.rows, d_.sequences * d_.sequence, d_.vocab, batch_.seed, scratch.targets, logits.data(),
                   scratch.row_losses, saved.loss},
        "the loss");
  }
  void open_loss(const ForWeight& saved) const {
    draw_targets(saved.targets);
    View<T> logits = saved.d_logits;
    run(table().open_loss,
        OpenLoss{d_.rows, own_.first, own_.count, batch_.seed, saved.targets, logits.data(), saved.own_parts,
                 saved.all_parts},
        "the statistics of a loss");
  }
  /// The first shard takes the loss of all.
  void close_loss(const ForWeight& saved, InputScratch& scratch) const {
    View<T> logits = saved.d_logits;
    run(table().close_loss,
        CloseLoss{d_.rows, d_.rows, own_.first, own_.count, saved.targets, saved.own_parts, saved.all_parts,
                  logits.data(), role_.has_loss() ? scratch.row_losses : nullptr,
                  role_.has_loss() ? saved.loss : nullptr},
        "the loss");
  }
  void target_weights(const ForWeight& saved, const StageWeights<T>& weights, EarlyGradient<T>& early) const {
    run(table().target_weights,
        TargetWeights{d_.rows, d_.hidden, d_.rows, own_.first, own_.count, saved.targets, weights.head.data(),
                      early.of_targets.data()},
        "the gradient of the targets' logits");
  }

 private:
  const std::int32_t* tokens() const { return Arena(place_.buffers.x).template take<std::int32_t>(d_.rows); }
  /// Those of the slice, of positions in a sequence; null where the stage has none.
  template <class N>
  const N* positions(const View<N>& all) const {
    return role_.has_positions() ? all.data() + d_.before * d_.hidden : nullptr;
  }
  void draw_targets(std::int32_t* targets) const {
    DrawTokens call = batch_.tokens;
    call.next = true;
    call.tokens = targets;
    draw_tokens(call);
  }

  StagePlace place_;
  const StageRole& role_;
  const Dimensions& d_;
  TokenRange own_;
  ActionBatch batch_;
};

}  // namespace

template <class T>
void compute_stage(const StagePlace& place, const StageKernels<T>& kernels, const ActionBatch& batch,
                   OpKind kind) {
  transformer::StagePass<GpuOps<T>>(GpuOps<T>(place, kernels, batch)).run(kind);
}

template void compute_stage(const StagePlace&, const StageKernels<Bf16>&, const ActionBatch&, OpKind);
template void compute_stage(const StagePlace&, const StageKernels<float>&, const ActionBatch&, OpKind);
template void compute_stage(const StagePlace&, const StageKernels<Ring>&, const ActionBatch&, OpKind);

}  // namespace ppsim::gpu_backend::cuda
