#pragma once

#include "gpu_layer.hpp"
#include "ppsim/gpu_backend/stage_model/stage_model.hpp"

namespace ppsim::gpu_backend::cuda {

using transformer::Arena;
using transformer::StageForWeight;
using transformer::StageWeights;

/// What F saves for W: as on the CPU, and on a shard of the head its targets, which are drawn once.
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

}  // namespace ppsim::gpu_backend::cuda
