#pragma once

#include "gpu_attention.hpp"
#include "transformer/pass/stage_place.hpp"

namespace ppsim::gpu_backend::cuda {

using transformer::EarlyGradient;
using transformer::NormGradients;
using transformer::NormTensors;
using transformer::StagePlace;
using transformer::StageWeights;

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

  /// What the kernels of an action know beside its tensors.
  struct Batch {
    std::uint64_t seed;
    DrawTokens tokens;  ///< draws those of the slice
    AttentionWorkspace flash = {};
  };
  /// Requires: references that outlive it.
  GpuOps(const StagePlace& place, const Run& kernels, const Batch& batch)
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
                     d_y.data(), scratch.gain_partials, to.d_gain.data(), to.d_x.data()},
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
  Batch batch_;
};

}  // namespace ppsim::gpu_backend::cuda
