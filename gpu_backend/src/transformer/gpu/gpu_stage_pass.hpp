#pragma once

#include <algorithm>

#include "gpu_layer.hpp"
#include "ppsim/gpu_backend/stage_model/stage_model.hpp"

namespace ppsim::gpu_backend::cuda {

using transformer::Arena;
using transformer::PerLayer;
using transformer::StageForInput;
using transformer::StageForWeight;
using transformer::StageInner;
using transformer::StageWeights;

/// The tensors that F saves for W: as on the CPU, and on a shard of the head its targets, which are drawn
/// once.
template <class T>
struct GpuForWeight : StageForWeight<T, SumOf<T>, SumOf<T>> {
  GpuForWeight(Arena& arena, const Dimensions& d, const StageRole& role, bool shared = false)
      : StageForWeight<T, SumOf<T>, SumOf<T>>(arena, d, role, shared),
        targets(arena.take<std::int32_t>(role.is_head_shard() ? d.rows : 0)) {}

  std::int32_t* targets;
};

/// One action of a shard of the head as kernels: the same computation as transformer::StagePass.
template <class T>
class HeadShard {
 public:
  using Sum = SumOf<T>;

  /// Requires: references that outlive it.
  struct Place {
    const Dimensions& d;
    const StageRole& role;
    std::uint64_t seed;
    const DrawTokens& tokens;  ///< draws those of the microbatch
  };
  HeadShard(const Place& place, const StageKernels<T>& run, const ActionBuffers& buffers)
      : place_(place),
        d_(place.d),
        own_(vocabulary_of(place.d, place.role)),
        run_(run),
        saved_(saved_in(buffers.saved_for_weight)),
        weights_(head_in<T>(buffers.parameters)),
        buffers_(buffers) {}

  void forward() const {
    View<T> logits = saved_.d_logits;
    run_.product(unrounded(forward_shape(d_.rows, d_.hidden, own_.count, false)), buffers_.x.data(),
                 weights_.head.data(), logits.data());
    DrawTokens targets = place_.tokens;
    targets.next = true;
    targets.tokens = saved_.targets;
    run_.draw_tokens(targets);
    run_.run(run_.table().open_loss,
             OpenLoss{d_.rows, own_.first, own_.count, place_.seed, saved_.targets, logits.data(),
                      saved_.own_parts, saved_.all_parts},
             "the statistics of a loss");
    if (place_.role.gradient_in_forward) make_early_gradient();
  }

  /// The first shard takes the loss of all.
  void backward_input(std::span<std::byte> workspace) const {
    Arena arena(workspace);
    const InputScratch<T> scratch(arena, d_, place_.role, {});
    const bool has_loss = place_.role.has_loss();
    View<T> logits = saved_.d_logits;
    run_.run(run_.table().close_loss,
             CloseLoss{d_.rows, d_.rows, own_.first, own_.count, saved_.targets, saved_.own_parts,
                       saved_.all_parts, logits.data(), has_loss ? scratch.row_losses : nullptr,
                       has_loss ? saved_.loss : nullptr},
             "the loss");
    if (!place_.role.gradient_in_forward) back_through_head(buffers_.dx.data());
  }

  void backward_weight() const {
    Arena arena(buffers_.gradients);
    StageWeights<Sum> gradients(arena, d_, place_.role);
    run_.product(unrounded(weight_shape(d_.rows, d_.hidden, own_.count)), buffers_.x.data(),
                 saved_.d_logits.data(), gradients.head.data());
    if (!place_.role.has_loss()) return;
    View<Sum> total(arena.take<Sum>(1), 1, 1);
    run_.add(View<Sum>(saved_.loss, 1, 1), total);
  }

 private:
  GpuForWeight<T> saved_in(std::span<std::byte> buffer) const {
    PPSIM_CHECK(!buffer.empty(), "a shard of the head saves what it shares");
    Arena arena(buffer);
    return GpuForWeight<T>(arena, d_, place_.role);
  }
  template <class Number>
  StageWeights<Number> head_in(std::span<std::byte> buffer) const {
    Arena arena(buffer);
    return StageWeights<Number>(arena, d_, place_.role);
  }

  void back_through_head(void* d_x) const {
    run_.product(unrounded(input_shape(d_.rows, d_.hidden, own_.count)), saved_.d_logits.data(),
                 weights_.head.data(), d_x);
  }

  void make_early_gradient() const {
    Arena arena(buffers_.dx);
    transformer::EarlyGradient<T> early(arena, d_);
    back_through_head(early.scaled.data());
    run_.run(run_.table().target_weights,
             TargetWeights{d_.rows, d_.hidden, d_.rows, own_.first, own_.count, saved_.targets,
                           weights_.head.data(), early.of_targets.data()},
             "the gradient of the targets' logits");
  }

  Place place_;
  const Dimensions& d_;
  TokenRange own_;
  const StageKernels<T>& run_;
  GpuForWeight<T> saved_;
  StageWeights<T> weights_;
  const ActionBuffers& buffers_;
};

/// Temporary tensors of F and R: as on the CPU, and what the loss needs.
template <class T>
struct ForwardScratch {
  using Base = transformer::ForwardTensors<T, SumOf<T>, SumOf<T>>;
  struct Own : Base::Own {
    AttentionWorkspace flash;
  };
  ForwardScratch(Arena& arena, const Dimensions& d, const StageRole& role, const Own& own)
      : tensors(arena, d, role, own),
        targets(arena.take<std::int32_t>(role.head && !role.is_head_shard() ? d.rows : 0)),
        row_losses(arena.take<SumOf<T>>(role.head && !role.is_head_shard() ? d.rows : 0)),
        workspace(arena.take_bytes(role.layers > 0 ? own.flash.forward : 0).data()) {}

  Base tensors;
  std::int32_t* targets;
  SumOf<T>* row_losses;
  std::byte* workspace;  ///< of cuDNN
};

/// One compute action as kernels: a stage, a microbatch and their tensors. The same computation as
/// transformer::StagePass, in the same layout of tensors.
template <class T>
class GpuStagePass {
 public:
  using Sum = SumOf<T>;
  using ForInput = StageForInput<T, Sum>;
  using ForWeight = GpuForWeight<T>;
  using Inner = StageInner<T, Sum>;

  struct Place {
    const TransformerConfig& config;
    std::span<const Dimensions> slices;  ///< of the microbatch
    StageRole role;
    DrawTokens tokens;  ///< draws those of the slice
    AttentionWorkspace flash = {};
  };

  GpuStagePass(const Place& place, const StageKernels<T>& run, const ActionBuffers& buffers)
      : place_(place),
        role_(place.role),
        d_(place.slices[static_cast<std::size_t>(buffers.slice)]),
        run_(run),
        buffers_(buffers) {}

  /// F, and R, which has no y.
  void forward() {
    if (role_.is_head_shard()) return head_shard().forward();
    const bool keeps_own = buffers_.saved_for_weight.empty();
    Arena workspace(buffers_.workspace);
    ForwardScratch<T> scratch(workspace, d_, role_, {{buffers_.y.empty(), keeps_own}, place_.flash});
    auto& own = scratch.tensors;
    Arena input_arena(keeps_own ? own.for_input : buffers_.saved_for_input);
    Arena weight_arena(keeps_own ? own.for_weight : buffers_.saved_for_weight);
    ForInput for_input(input_arena, d_, role_, keeps_own);
    ForWeight for_weight(weight_arena, d_, role_, keeps_own);
    const StageWeights<T> weights = weights_in(buffers_.parameters);

    View<T> stream = buffers_.y.empty() ? own.stream : boundary(buffers_.y);
    if (role_.embedding) {
      embed(weights, stream);
    } else {
      run_.copy(boundary(buffers_.x), stream);
    }
    for (int i = 0; i < role_.layers; ++i) {
      GpuLayer<T>(d_, run_, {weights.layers[i], for_input.layers[i], for_weight.layers[i], slices(i)})
          .forward(stream, own.normed, scratch.workspace);
    }
    const Saved saved{weights, for_input, for_weight};
    if (role_.head) {
      take_loss(saved, stream, scratch);
    } else if (role_.final_norm) {
      final_norm(saved).forward(stream, stream);
    }
  }

  void backward_input() { backward_input(buffers_.inner_gradients, buffers_.workspace); }
  void backward_weight() { backward_weight(buffers_.inner_gradients, buffers_.workspace); }

  /// I and W, with the inner gradients between them in the workspace.
  void backward() {
    Arena workspace(buffers_.workspace);
    const std::span<std::byte> inner = workspace.take_bytes(transformer::bytes_of<Inner>(d_, role_));
    backward_input(inner, workspace.rest());
    backward_weight(inner, workspace.rest());
  }

 private:
  struct Saved {
    const StageWeights<T>& weights;
    const ForInput& for_input;
    const ForWeight& for_weight;
  };

  View<T> boundary(std::span<std::byte> buffer) const {
    return Arena(buffer).template take_matrix<T>(d_.rows, d_.hidden);
  }
  StageWeights<T> weights_in(std::span<std::byte> buffer) const {
    Arena arena(buffer);
    return StageWeights<T>(arena, d_, role_);
  }
  const std::int32_t* tokens() const { return Arena(buffers_.x).template take<std::int32_t>(d_.rows); }

  /// Those of the slice, of positions in a sequence; null where the stage has none.
  template <class Number>
  Number* positions(View<Number>& all) const {
    return role_.has_positions() ? all.data() + d_.before * d_.hidden : nullptr;
  }
  template <class Number>
  const Number* positions(const View<Number>& all) const {
    return role_.has_positions() ? all.data() + d_.before * d_.hidden : nullptr;
  }
  void embed(const StageWeights<T>& weights, View<T>& stream) const {
    const TokenRange own = vocabulary_of(d_, role_);
    run_.run(run_.table().embed,
             Embed{d_.rows, d_.length, d_.hidden, own.first, own.count, tokens(), weights.tokens.data(),
                   positions(weights.positions), stream.data()},
             "the embedding");
  }
  void add_embedding_gradients(const View<T>& d_stream, StageWeights<Sum>& gradients,
                               std::int32_t* order) const {
    const TokenRange own = vocabulary_of(d_, role_);
    run_.run(run_.table().embed_backward,
             EmbedBackward{d_.rows, d_.length, d_.hidden, own.first, own.count, tokens(), d_stream.data(),
                           order, gradients.tokens.data(), positions(gradients.positions)},
             "the gradient of the embedding");
  }
  HeadShard<T> head_shard() const { return {{d_, role_, place_.config.seed, place_.tokens}, run_, buffers_}; }
  AttendedSlices<T> slices(int layer) const { return {{place_.slices, role_, buffers_}, layer}; }

  GpuNorm<T> final_norm(const Saved& saved) const {
    return {run_, saved.weights.final_gain, saved.for_weight.final_unit, saved.for_input.final_scale};
  }

  void take_loss(const Saved& saved, const View<T>& stream, ForwardScratch<T>& scratch) const {
    final_norm(saved).forward(stream, scratch.tensors.normed);
    View<T> logits = saved.for_weight.d_logits;
    run_.product(unrounded(forward_shape(d_.rows, d_.hidden, d_.vocab, false)), scratch.tensors.normed.data(),
                 saved.weights.head.data(), logits.data());
    DrawTokens targets = place_.tokens;
    targets.next = true;
    targets.tokens = scratch.targets;
    run_.draw_tokens(targets);
    run_.run(run_.table().loss,
             Loss{d_.rows, d_.sequences * d_.sequence, d_.vocab, place_.config.seed, scratch.targets,
                  logits.data(), scratch.row_losses, saved.for_weight.loss},
             "the loss");
  }

  /// The gradient of a boundary: dx and dy at the ends of a stage that has them.
  View<T> gradient_at(int index, const Inner& inner) const {
    if (index == role_.layers && !role_.final_norm) return boundary(buffers_.dy);
    if (index == 0 && !role_.embedding) return boundary(buffers_.dx);
    const Index rows = (index - inner.first_boundary) * d_.rows;
    return View<T>(const_cast<T*>(inner.boundaries.data()) + rows * d_.hidden, d_.rows, d_.hidden);
  }

  void backward_input(std::span<std::byte> inner_buffer, std::span<std::byte> workspace_buffer) {
    if (role_.is_head_shard()) return head_shard().backward_input(workspace_buffer);
    Arena inner_arena(inner_buffer);
    Arena workspace(workspace_buffer);
    Arena input_arena(buffers_.saved_for_input);
    Arena weight_arena(buffers_.saved_for_weight);
    Inner inner(inner_arena, d_, role_);
    InputScratch<T> scratch(workspace, d_, role_, place_.flash);
    const ForInput for_input(input_arena, d_, role_);
    const ForWeight for_weight(weight_arena, d_, role_);
    const StageWeights<T> weights = weights_in(buffers_.parameters);

    if (role_.final_norm) {
      View<T> d_output = gradient_at(role_.layers, inner);
      run_.clear(d_output);
      if (role_.head) {
        run_.product(unrounded(input_shape(d_.rows, d_.hidden, d_.vocab)), for_weight.d_logits.data(),
                     weights.head.data(), scratch.d_hidden.data());
      }
      final_norm({weights, for_input, for_weight})
          .backward(role_.head ? scratch.d_hidden : boundary(buffers_.dy), inner.d_final_gain, d_output,
                    scratch.gain_partials);
    } else if (role_.layers == 0 && !role_.embedding) {
      View<T> d_input = boundary(buffers_.dx);
      run_.copy(boundary(buffers_.dy), d_input);
    }
    for (int i = role_.layers - 1; i >= 0; --i) {
      LayerInner<T, Sum> layer_inner = inner.layers[i];
      View<T> d_input = gradient_at(i, inner);
      GpuLayer<T>(d_, run_, {weights.layers[i], for_input.layers[i], for_weight.layers[i], slices(i)})
          .backward_input(gradient_at(i + 1, inner), layer_inner, scratch, d_input);
    }
  }

  void backward_weight(std::span<std::byte> inner_buffer, std::span<std::byte> workspace_buffer) {
    if (role_.is_head_shard()) return head_shard().backward_weight();
    Arena inner_arena(inner_buffer);
    Arena workspace(workspace_buffer);
    Arena weight_arena(buffers_.saved_for_weight);
    Arena gradient_arena(buffers_.gradients);
    const Inner inner(inner_arena, d_, role_);
    WeightScratch<T> scratch(workspace, d_, role_);
    const ForWeight for_weight(weight_arena, d_, role_);
    const StageWeights<T> weights = weights_in(buffers_.parameters);
    StageWeights<Sum> gradients(gradient_arena, d_, role_);

    if (role_.head) {
      run_.run(run_.table().apply_gain,
               ApplyGain{d_.rows, d_.hidden, for_weight.final_unit.data(), weights.final_gain.data(),
                         scratch.tensors.normed.data()},
               "the final norm's gain");
      run_.product(unrounded(weight_shape(d_.rows, d_.hidden, d_.vocab)), scratch.tensors.normed.data(),
                   for_weight.d_logits.data(), gradients.head.data());
      View<Sum> total(gradient_arena.take<Sum>(1), 1, 1);
      run_.add(View<Sum>(for_weight.loss, 1, 1), total);
    }
    if (role_.final_norm) run_.add(inner.d_final_gain, gradients.final_gain);
    for (int i = 0; i < role_.layers; ++i) {
      // W reads nothing that only I needs.
      const LayerForInput<T, Sum> none = nothing_for_input();
      GpuLayer<T>(d_, run_, {weights.layers[i], none, for_weight.layers[i], slices(i)})
          .backward_weight(inner.layers[i], gradient_at(i + 1, inner), scratch.tensors.normed,
                           gradients.layers[i]);
    }
    if (role_.embedding) add_embedding_gradients(gradient_at(0, inner), gradients, scratch.token_order);
  }

  LayerForInput<T, Sum> nothing_for_input() const {
    Arena counter;
    return LayerForInput<T, Sum>(counter, d_);
  }

  const Place& place_;
  const StageRole& role_;
  const Dimensions& d_;
  const StageKernels<T>& run_;
  const ActionBuffers& buffers_;
};

}  // namespace ppsim::gpu_backend::cuda
