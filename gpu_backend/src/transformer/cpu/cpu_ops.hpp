#pragma once

#include "cpu_attention.hpp"
#include "transformer_arithmetic.hpp"

namespace ppsim::gpu_backend::transformer {

/// The operations of one compute action on a CPU, each done when it returns.
template <class Policy>
class CpuOps {
 public:
  using Number = typename Policy::Scalar;
  using T = Number;
  using Sum = T;
  using Loss = typename Policy::Loss;
  using ForWeight = StageForWeight<T, Loss>;
  using ForwardScratch = ForwardTensors<T, Loss>;
  using InputScratch = InputTensors<T>;
  using WeightScratch = WeightTensors<T>;
  using Norm = NormTensors<T, T>;

  /// `first_sequence` is that of the microbatch in this step. Requires: references that outlive it.
  CpuOps(const StagePlace& place, const TransformerConfig& config, std::int64_t first_sequence)
      : place_(place), role_(place_.role), d_(place_.d()), config_(config), first_sequence_(first_sequence) {}

  [[nodiscard]] const StagePlace& place() const { return place_; }
  /// The same with products that are not rounded, which they never are here.
  [[nodiscard]] const CpuOps& exact() const { return *this; }
  ForwardScratch forward_scratch(Arena& workspace, const typename ForwardScratch::Own& own) const {
    return {workspace, d_, role_, own};
  }
  InputScratch input_scratch(Arena& workspace) const { return {workspace, d_, role_}; }
  WeightScratch weight_scratch(Arena& workspace) const { return {workspace, d_, role_}; }

  void forward(const View<T>& x, const View<T>& weights, View<T>& y, bool accumulate = false) const {
    accumulate ? add_product(y, x, weights) : set_product(y, x, weights);
  }
  void backward_input(const View<T>& d_y, const View<T>& weights, View<T>& d_x) const {
    set_product_by_transpose(d_x, d_y, weights);
  }
  void backward_weight(const View<T>& x, const View<T>& d_y, View<T>& d_weights) const {
    add_product_of_transpose(d_weights, x, d_y);
  }
  void copy(const View<T>& from, View<T>& to) const { to = from; }
  void clear(View<T>& tensor) const { tensor.setZero(); }
  template <class N>
  void add(const View<N>& from, View<N>& into) const {
    into += from;
  }

  void norm(const Norm& norm, const View<T>& x, View<T>& y) const {
    View<T> unit = norm.unit;
    View<T> scale = norm.scale;
    for (Index r = 0; r < x.rows(); ++r) scale(r, 0) = Policy::normalize(row(x, r), row(unit, r));
    apply_gain(norm, y);
  }
  void apply_gain(const Norm& norm, View<T>& y) const {
    for (Index r = 0; r < norm.unit.rows(); ++r) y.row(r) = norm.unit.row(r).cwiseProduct(norm.gain.row(0));
  }
  void norm_backward(const Norm& norm, const View<T>& d_y, const NormGradients<T, T>& to,
                     InputScratch& /*scratch*/) const {
    Eigen::Matrix<T, 1, Eigen::Dynamic> d_row(d_y.cols());
    to.d_gain.setZero();
    for (Index r = 0; r < norm.unit.rows(); ++r) {
      to.d_gain.row(0) += d_y.row(r).cwiseProduct(norm.unit.row(r));
      d_row = d_y.row(r).cwiseProduct(norm.gain.row(0));
      Policy::normalize_backward(row(norm.unit, r), norm.scale(r, 0),
                                 {d_row.data(), static_cast<std::size_t>(d_row.cols())});
      to.d_x.row(r) += d_row;
    }
  }

  void attend(const AttentionTensors<T, T>& tensors, ForwardScratch& /*scratch*/) const {
    attention(tensors).forward();
  }
  void attend_backward(const AttentionTensors<T, T>& tensors, InputScratch& scratch, View<T>& d_qkv) const {
    attention(tensors).backward(scratch.d_hidden, scratch.d_scores, d_qkv);
  }

  void gate(const View<T>& gate_up, View<T>& activated) const {
    for (Index r = 0; r < d_.rows; ++r) {
      for (Index c = 0; c < d_.ffn; ++c)
        activated(r, c) = Policy::activation(gate_up(r, c)) * gate_up(r, d_.ffn + c);
    }
  }
  void gate_backward(const View<T>& gate_up, const View<T>& d_activated, View<T>& d_gate_up) const {
    for (Index r = 0; r < d_.rows; ++r) {
      for (Index c = 0; c < d_.ffn; ++c) {
        const T gate = gate_up(r, c);
        const T up = gate_up(r, d_.ffn + c);
        d_gate_up(r, c) = d_activated(r, c) * up * Policy::activation_slope(gate);
        d_gate_up(r, d_.ffn + c) = d_activated(r, c) * Policy::activation(gate);
      }
    }
  }

  void embed(const StageWeights<T>& weights, View<T>& stream) const {
    for_each_token([&](Index r, Index at) {
      if (at >= 0) {
        stream.row(r) = weights.tokens.row(at);
      } else {
        stream.row(r).setZero();
      }
      if (role_.has_positions()) stream.row(r) += weights.positions.row(position(r));
    });
  }
  void embed_backward(const View<T>& d_stream, StageWeights<T>& gradients, WeightScratch& /*scratch*/) const {
    for_each_token([&](Index r, Index at) {
      if (at >= 0) gradients.tokens.row(at) += d_stream.row(r);
      if (role_.has_positions()) gradients.positions.row(position(r)) += d_stream.row(r);
    });
  }

  /// Replaces logits by their gradients.
  void take_loss(const ForWeight& saved, ForwardScratch& /*scratch*/) const {
    *saved.loss = 0;
    for_each_position(saved, [&](Index /*r*/, const LossPlace& at, std::span<T> logits) {
      const LossParts<T> parts = Policy::open_loss(at, logits);
      transformer::close_loss<Policy>(at, parts, parts, logits);
      *saved.loss += Policy::loss(at.positions, parts);
    });
  }
  /// The same in two parts for a shard of the head, between which the shards merge what they know.
  void open_loss(const ForWeight& saved) const {
    for_each_position(saved, [&](Index r, const LossPlace& at, std::span<T> logits) {
      saved.all_parts[r] = saved.own_parts[r] = Policy::open_loss(at, logits);
    });
  }
  void close_loss(const ForWeight& saved, InputScratch& /*scratch*/) const {
    *saved.loss = 0;
    for_each_position(saved, [&](Index r, const LossPlace& at, std::span<T> logits) {
      const LossParts<T>& all = saved.all_parts[r];
      transformer::close_loss<Policy>(at, saved.own_parts[r], all, logits);
      if (role_.has_loss()) *saved.loss += Policy::loss(at.positions, all);
    });
  }
  void target_weights(const ForWeight& saved, const StageWeights<T>& weights, EarlyGradient<T>& early) const {
    early.of_targets.setZero();
    for_each_position(saved, [&](Index r, const LossPlace& at, std::span<T> logits) {
      const auto target = at.target_among(logits.size());
      if (!target) return;
      early.of_targets.row(r) =
          Policy::target_share(at.positions) * weights.head.col(static_cast<Index>(*target)).transpose();
    });
  }

 private:
  Attention<Policy> attention(const AttentionTensors<T, T>& of) const {
    return {d_, of.qkv, of.scores, of.attended, of.slices};
  }
  /// Place of a row's token in its sequence.
  Index position(Index r) const { return d_.before + r % d_.length; }

  /// Calls `visit` with each row and that of its token in the stage's part of the embedding; -1 where it has
  /// none.
  template <class Visit>
  void for_each_token(const Visit& visit) const {
    const auto* const ids = Arena(place_.buffers.x).template take<std::int32_t>(d_.rows);
    const TokenRange own = vocabulary_of(d_, role_);
    for (Index r = 0; r < d_.rows; ++r) {
      const Index at = ids[r] - own.first;
      visit(r, at >= 0 && at < own.count ? at : -1);
    }
  }

  /// Calls `visit` with each row, where its loss is taken, and its logits.
  template <class Visit>
  void for_each_position(const ForWeight& saved, const Visit& visit) const {
    const auto positions = static_cast<std::size_t>(d_.sequences * d_.sequence);
    const Index first = vocabulary_of(d_, role_).first;
    View<T> logits = saved.d_logits;
    for (Index s = 0; s < d_.sequences; ++s) {
      TokenSource source(config_.seed, static_cast<std::uint64_t>(first_sequence_ + s), config_.vocab);
      for (Index i = 0; i <= d_.before; ++i) static_cast<void>(source.next());
      for (Index r = s * d_.length; r < (s + 1) * d_.length; ++r)
        visit(r, LossPlace{config_.seed, source.next(), positions, first}, row(logits, r));
    }
  }

  StagePlace place_;
  const StageRole& role_;
  const Dimensions& d_;
  const TransformerConfig& config_;
  std::int64_t first_sequence_;
};

}  // namespace ppsim::gpu_backend::transformer
