#include "cpu_pass.hpp"

#include <Eigen/Core>
#include <algorithm>
#include <vector>

#include "transformer/pass/stage_pass.hpp"
#include "transformer_arithmetic.hpp"

namespace ppsim::gpu_backend::transformer {
namespace {

/// Eigen compiles its kernels again for each combination of operand types. Here all row-major matrices and
/// parts of them are of one type, so that each form of a product is compiled once for a kind of number.
template <class T>
struct Products {
  using Matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  using Factor = Eigen::Map<const Matrix, Eigen::Unaligned, Eigen::OuterStride<>>;
  using Result = Eigen::Map<Matrix, Eigen::Unaligned, Eigen::OuterStride<>>;

  [[gnu::noinline]] static void set(Result into, Factor a, Factor b) { into.noalias() = a * b; }
  [[gnu::noinline]] static void set_by_transpose(Result into, Factor a, Factor b) {
    into.noalias() = a * b.transpose();
  }
  [[gnu::noinline]] static void add(Result into, Factor a, Factor b) { into.noalias() += a * b; }
  [[gnu::noinline]] static void add_of_transpose(Result into, Factor a, Factor b) {
    into.noalias() += a.transpose() * b;
  }
};

template <class Matrix>
[[nodiscard]] auto factor(const Matrix& matrix) {
  return typename Products<typename Matrix::Scalar>::Factor(matrix.data(), matrix.rows(), matrix.cols(),
                                                            Eigen::OuterStride<>(matrix.outerStride()));
}

template <class Matrix>
[[nodiscard]] auto result(Matrix& matrix) {
  return typename Products<typename Matrix::Scalar>::Result(matrix.data(), matrix.rows(), matrix.cols(),
                                                            Eigen::OuterStride<>(matrix.outerStride()));
}

/// into = a b
template <class Into, class A, class B>
void set_product(Into&& into, const A& a, const B& b) {
  Products<typename A::Scalar>::set(result(into), factor(a), factor(b));
}
/// into = a b'
template <class Into, class A, class B>
void set_product_by_transpose(Into&& into, const A& a, const B& b) {
  Products<typename A::Scalar>::set_by_transpose(result(into), factor(a), factor(b));
}
/// into = into + a b
template <class Into, class A, class B>
void add_product(Into&& into, const A& a, const B& b) {
  Products<typename A::Scalar>::add(result(into), factor(a), factor(b));
}
/// into = into + a' b
template <class Into, class A, class B>
void add_product_of_transpose(Into&& into, const A& a, const B& b) {
  Products<typename A::Scalar>::add_of_transpose(result(into), factor(a), factor(b));
}

/// Keys and values of one slice, or their gradients, as columns of a matrix.
template <class T>
struct KeysValues {
  View<T> matrix;
  Slice slice;
  Index stride, first;  ///< rows of a sequence, and which of them is the slice's first
  Index column;         ///< where the keys of all heads begin; the values follow them

  [[nodiscard]] auto keys(const Dimensions& d, Index s, Index h) {
    return matrix.block(s * stride + first, column + h * d.head_size, slice.length, d.head_size);
  }
  [[nodiscard]] auto values(const Dimensions& d, Index s, Index h) { return keys(d, s, d.heads + h); }
  [[nodiscard]] auto both(const Dimensions& d, Index s) {
    return matrix.block(s * stride + first, column, slice.length, 2 * d.hidden);
  }
};

/// Those in the joint projection of queries, keys and values of a slice.
template <class T>
[[nodiscard]] KeysValues<T> keys_values_in(const View<T>& qkv, const Dimensions& d) {
  return {qkv, {d.before, d.length}, d.length, 0, d.hidden};
}

/// Causal multi-head attention between the joint projection of queries, keys and values and the output
/// projection.
template <class Policy>
struct Attention {
  using T = typename Policy::Scalar;
  const Dimensions& d;
  View<T> qkv, scores, attended;
  AttendedSlices<T, T> shared;

  void forward() {
    std::vector<KeysValues<T>> slices = keys_values();
    attended.setZero();
    for (Index s = 0; s < d.sequences; ++s) {
      for (Index h = 0; h < d.heads; ++h) {
        auto score = scores_of(s, h);
        for (KeysValues<T>& slice : slices)
          set_product_by_transpose(columns(score, slice), part(qkv, s, h), slice.keys(d, s, h));
        for (Index r = 0; r < d.length; ++r) attend_back(score.row(r), d.before + r);
        for (KeysValues<T>& slice : slices)
          add_product(part(attended, s, h), columns(score, slice), slice.values(d, s, h));
      }
    }
  }

  /// Writes the gradient of qkv.
  void backward(View<T>& d_attended, View<T>& d_score, View<T>& d_qkv) {
    std::vector<KeysValues<T>> slices = keys_values();
    std::vector<KeysValues<T>> gradients = begin_gradients(d_qkv);
    for (Index s = 0; s < d.sequences; ++s) {
      for (Index h = 0; h < d.heads; ++h) {
        auto score = scores_of(s, h);
        const auto d_out = part(d_attended, s, h);
        for (KeysValues<T>& slice : slices)
          set_product_by_transpose(columns(d_score, slice), d_out, slice.values(d, s, h));
        for (Index r = 0; r < d.length; ++r)
          attend_back_gradient(score.row(r), d.before + r, row(d_score, r));
        for (std::size_t k = 0; k < slices.size(); ++k) {
          const auto d_part = columns(d_score, slices[k]);
          add_product(part(d_qkv, s, h), d_part, slices[k].keys(d, s, h));
          add_product_of_transpose(gradients[k].keys(d, s, h), d_part, part(qkv, s, h));
          add_product_of_transpose(gradients[k].values(d, s, h), columns(score, slices[k]), d_out);
        }
      }
    }
  }

 private:
  /// Those of all slices that this one reads.
  std::vector<KeysValues<T>> keys_values() const {
    std::vector<KeysValues<T>> all;
    for (std::size_t k = 0; k < shared.own(); ++k)
      all.push_back(keys_values_in(shared.joint(k), shared.all()[k]));
    all.push_back(keys_values_in(qkv, d));
    return all;
  }
  /// Their gradients, which are added to: the last slice begins those of the ones before, and each takes over
  /// what those after it have given.
  std::vector<KeysValues<T>> begin_gradients(View<T>& d_qkv) const {
    std::vector<KeysValues<T>> all;
    for (std::size_t k = 0; k < shared.own(); ++k) all.push_back(gradient(k));
    KeysValues<T>& own = all.emplace_back(keys_values_in(d_qkv, d));
    d_qkv.setZero();
    if (shared.is_last()) {
      if (shared.own() > 0) shared.gradients().setZero();
      return all;
    }
    KeysValues<T> later = gradient(shared.own());
    for (Index s = 0; s < d.sequences; ++s) own.both(d, s) = later.both(d, s);
    return all;
  }
  KeysValues<T> gradient(std::size_t slice) const {
    const Slice own{shared.all()[slice].before, shared.all()[slice].length};
    return {shared.gradients(), own, shared.stride(), own.before, 0};
  }

  /// The columns of one head; queries come first, then keys and values.
  auto part(View<T>& matrix, Index sequence, Index head) const {
    return matrix.block(sequence * d.length, head * d.head_size, d.length, d.head_size);
  }
  auto scores_of(Index sequence, Index head) {
    return scores.middleRows((sequence * d.heads + head) * d.length, d.length);
  }
  /// Of scores, those against the keys of one slice.
  template <class Scores>
  static auto columns(Scores& score, const KeysValues<T>& of) {
    return score.middleCols(of.slice.before, of.slice.length);
  }
  T scale() const { return Policy::score_scale(as_size(d.head_size)); }

  /// Position `last` attends to itself and what came before.
  template <class Row>
  void attend_back(Row score, Index last) {
    score.head(last + 1) *= scale();
    Policy::softmax({score.data(), as_size(last + 1)});
    score.tail(d.keys() - last - 1).setZero();
  }
  template <class Row>
  void attend_back_gradient(const Row& score, Index last, std::span<T> d_score) const {
    const auto length = as_size(last + 1);
    Policy::softmax_backward({score.data(), length}, d_score.first(length));
    for (T& value : d_score.first(length)) value *= scale();
    std::fill(d_score.begin() + last + 1, d_score.end(), T(0));
  }
};

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
  void add_boundary(const View<T>& from, View<T>& into) const { into += from; }
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
      Policy::normalize_backward(row(norm.unit, r), norm.scale(r, 0), {d_row.data(), as_size(d_row.cols())});
      if (to.residual == nullptr) {
        to.d_x.row(r).setZero();
      } else {
        to.d_x.row(r) = to.residual->row(r);
      }
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

  void embed(const View<T>& tokens, const View<T>& positions, View<T>& stream) const {
    for_each_token([&](Index r, Index at) {
      if (at >= 0) {
        stream.row(r) = tokens.row(at);
      } else {
        stream.row(r).setZero();
      }
      if (role_.has_positions()) stream.row(r) += positions.row(position(r));
    });
  }
  void embed_backward(const View<T>& d_stream, View<T>& d_tokens, View<T>& d_positions,
                      WeightScratch& /*scratch*/) const {
    for_each_token([&](Index r, Index at) {
      if (at >= 0) d_tokens.row(at) += d_stream.row(r);
      if (role_.has_positions()) d_positions.row(position(r)) += d_stream.row(r);
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
    const auto positions = as_size(d_.sequences * d_.sequence);
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

}  // namespace

template <class Policy>
void compute_stage(const StagePlace& place, const TransformerConfig& config, std::int64_t first_sequence,
                   OpKind kind) {
  StagePass<CpuOps<Policy>>(CpuOps<Policy>(place, config, first_sequence)).run(kind);
}

template void compute_stage<RealArithmetic<float>>(const StagePlace&, const TransformerConfig&, std::int64_t,
                                                   OpKind);
template void compute_stage<RealArithmetic<double>>(const StagePlace&, const TransformerConfig&, std::int64_t,
                                                    OpKind);
template void compute_stage<RingArithmetic>(const StagePlace&, const TransformerConfig&, std::int64_t,
                                            OpKind);

}  // namespace ppsim::gpu_backend::transformer
