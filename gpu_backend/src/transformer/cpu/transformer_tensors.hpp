#pragma once

#include <Eigen/Core>
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "ppsim/core/ir/check.hpp"
#include "ppsim/core/ir/padding.hpp"
#include "ppsim/gpu_backend/transformer/transformer.hpp"
#include "transformer/model/transformer_role.hpp"
#include "transformer_arithmetic.hpp"

namespace ppsim::gpu_backend::transformer {

using Eigen::Index;

/// A row-major matrix in somebody else's memory.
template <class T>
using View = Eigen::Map<Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>>;

template <class T>
[[nodiscard]] std::span<T> row(View<T>& matrix, Index index) {
  return {matrix.data() + index * matrix.cols(), as_size(matrix.cols())};
}
template <class T>
[[nodiscard]] std::span<const T> row(const View<T>& matrix, Index index) {
  return {matrix.data() + index * matrix.cols(), as_size(matrix.cols())};
}

/// Tokens of a sequence that are computed together.
struct Slice {
  Index before;  ///< tokens of the sequence in front of it
  Index length;
};

/// Sizes that every stage of a model shares; a row is one token of a slice of a microbatch.
struct Dimensions {
  explicit Dimensions(const TransformerConfig& config) : Dimensions(config, {0, config.sequence}) {}
  Dimensions(const TransformerConfig& config, const Slice& slice)
      : sequences(config.microbatch_size),
        sequence(config.sequence),
        before(slice.before),
        length(slice.length),
        rows(sequences * length),
        hidden(config.hidden),
        heads(config.heads),
        head_size(hidden / heads),
        ffn(config.ffn),
        vocab(config.vocab) {}

  Index sequences, sequence, before, length, rows, hidden, heads, head_size, ffn, vocab;
  /// Attention saves the logarithms of the sums of its softmax, and not what the softmax gave.
  bool saves_statistics = false;

  /// Numbers that lie in the rows of the probabilities of all heads.
  [[nodiscard]] Index saved_scores() const { return saves_statistics ? 0 : keys(); }
  /// Tokens whose keys and values a slice reads: its own and those in front of it.
  [[nodiscard]] Index keys() const { return before + length; }
};

/// Tokens one after the other.
struct TokenRange {
  Index first;
  Index count;
};

/// The part of the vocabulary that is on a stage, as equal as can be.
[[nodiscard]] inline TokenRange vocabulary_of(const Dimensions& d, const StageRole& role) {
  const Index first = role.shard * d.vocab / role.shards;
  return {first, (role.shard + 1) * d.vocab / role.shards - first};
}

/// Number of the first sequence of a microbatch in a step: no two microbatches of a training have one in
/// common. Padding has none, so that a batch is the same with and without it.
[[nodiscard]] inline std::int64_t first_sequence(const Pipeline& pipeline, const Dimensions& d,
                                                 MicrobatchId mb, std::int64_t step) {
  const auto& updates = pipeline.spec().update;
  const auto before =
      std::count_if(updates.begin(), updates.begin() + mb.value(), [](int of) { return of >= 0; });
  return (step * batch_microbatches(pipeline) + before) * d.sequences;
}

/// Hands out the tensors of one buffer one after the other, each on a 64-byte boundary: bits of a result may
/// depend on the alignment of its operands, and so never depend on the place of a buffer. Without a buffer it
/// only counts.
class Arena {
 public:
  static constexpr std::size_t kAlignment = 64;

  Arena() = default;
  explicit Arena(std::span<std::byte> buffer) : buffer_(buffer), counts_only_(false) {
    PPSIM_CHECK(reinterpret_cast<std::uintptr_t>(buffer.data()) % kAlignment == 0, "a buffer is not aligned");
  }

  [[nodiscard]] std::span<std::byte> take_bytes(std::size_t bytes) {
    const std::size_t begin = used_;
    used_ += (bytes + kAlignment - 1) / kAlignment * kAlignment;
    if (counts_only_) return {};
    PPSIM_CHECK(used_ <= buffer_.size(), "a buffer is smaller than its size class says");
    return buffer_.subspan(begin, bytes);
  }
  template <class T>
  [[nodiscard]] T* take(Index count) {
    return reinterpret_cast<T*>(take_bytes(as_size(count) * sizeof(T)).data());
  }
  template <class T>
  [[nodiscard]] View<T> take_matrix(Index rows, Index cols) {
    return View<T>(take<T>(rows * cols), rows, cols);
  }
  /// The same with room for a multiple of 32 numbers, so that number i of a block's parameters is number i of
  /// its gradients, whatever the types of both.
  template <class T>
  [[nodiscard]] View<T> take_weights(Index rows, Index cols) {
    return View<T>(take<T>((rows * cols + 31) / 32 * 32), rows, cols);
  }

  [[nodiscard]] std::size_t used() const { return used_; }
  [[nodiscard]] std::span<std::byte> rest() const { return buffer_.subspan(used_); }

 private:
  std::span<std::byte> buffer_;
  std::size_t used_ = 0;
  bool counts_only_ = true;
};

/// Bytes of a group of tensors that is made from an arena and `arguments`.
template <class Tensors, class... Arguments>
[[nodiscard]] std::size_t bytes_of(const Arguments&... arguments) {
  Arena counter;
  static_cast<void>(Tensors(counter, arguments...));
  return counter.used();
}

/// A group of tensors for each layer of a stage, or one group that all of them use in turn.
template <class Tensors>
class PerLayer {
 public:
  PerLayer(Arena& arena, const Dimensions& d, int layers, bool shared = false)
      : dimensions_(d),
        group_bytes_(bytes_of<Tensors>(d)),
        stride_(shared ? 0 : group_bytes_),
        buffer_(arena.take_bytes(group_bytes_ * as_size(shared ? std::min(layers, 1) : layers))) {}

  [[nodiscard]] Tensors operator[](int layer) const {
    Arena arena(buffer_.subspan(stride_ * as_size(layer), group_bytes_));
    return Tensors(arena, dimensions_);
  }
  /// The layer that a place in these tensors belongs to.
  [[nodiscard]] int layer_at(const void* place) const {
    return static_cast<int>(as_size(static_cast<const std::byte*>(place) - buffer_.data()) / group_bytes_);
  }

 private:
  Dimensions dimensions_;
  std::size_t group_bytes_;
  std::size_t stride_;
  std::span<std::byte> buffer_;
};

/// Bytes behind the gradients of a block, where a last stage sums the losses of its microbatches.
inline constexpr std::size_t kLossBytes = Arena::kAlignment;

/// Parameters of one layer, or their gradients.
template <class T>
struct LayerWeights {
  LayerWeights(Arena& arena, const Dimensions& d)
      : attention_gain(arena.take_weights<T>(1, d.hidden)),
        qkv(arena.take_weights<T>(d.hidden, 3 * d.hidden)),
        projection(arena.take_weights<T>(d.hidden, d.hidden)),
        mlp_gain(arena.take_weights<T>(1, d.hidden)),
        gate_up(arena.take_weights<T>(d.hidden, 2 * d.ffn)),
        down(arena.take_weights<T>(d.ffn, d.hidden)) {}

  View<T> attention_gain, qkv, projection, mlp_gain, gate_up, down;
};

/// Parameters of a stage, or their gradients; those that the stage does not have are empty.
template <class T>
struct StageWeights {
  StageWeights(Arena& arena, const Dimensions& d, const StageRole& role)
      : tokens(arena.take_weights<T>(role.has_tokens() ? vocabulary_of(d, role).count : 0, d.hidden)),
        positions(arena.take_weights<T>(role.has_positions() ? d.sequence : 0, d.hidden)),
        layers(arena, d, role.layers),
        final_gain(arena.take_weights<T>(1, role.final_norm ? d.hidden : 0)),
        head(arena.take_weights<T>(role.has_head_weights() ? d.hidden : 0, vocabulary_of(d, role).count)) {}

  View<T> tokens, positions;
  PerLayer<LayerWeights<T>> layers;
  View<T> final_gain, head;
};

/// Saved activations of one layer that only I needs. `Sum` is the type of what is summed, here and below.
template <class T, class Sum = T>
struct LayerForInput {
  LayerForInput(Arena& arena, const Dimensions& d)
      : attention_scale(arena.take_matrix<Sum>(d.rows, 1)),
        mlp_scale(arena.take_matrix<Sum>(d.rows, 1)),
        qkv(arena.take_matrix<T>(d.rows, 3 * d.hidden)),
        scores(arena.take_matrix<T>(d.rows * d.heads, d.saved_scores())),
        statistics(arena.take_matrix<Sum>(d.saves_statistics ? d.rows * d.heads : 0, 1)),
        gate_up(arena.take_matrix<T>(d.rows, 2 * d.ffn)) {}

  View<Sum> attention_scale, mlp_scale;
  View<T> qkv, scores;
  View<Sum> statistics;
  View<T> gate_up;
};

/// Saved activations of one layer that W needs; I needs some of them too. `unit` is a norm's result before
/// its gain.
template <class T>
struct LayerForWeight {
  LayerForWeight(Arena& arena, const Dimensions& d)
      : attention_unit(arena.take_matrix<T>(d.rows, d.hidden)),
        attended(arena.take_matrix<T>(d.rows, d.hidden)),
        mlp_unit(arena.take_matrix<T>(d.rows, d.hidden)),
        activated(arena.take_matrix<T>(d.rows, d.ffn)) {}

  View<T> attention_unit, attended, mlp_unit, activated;
};

template <class T, class Sum = T>
struct StageForInput {
  StageForInput(Arena& arena, const Dimensions& d, const StageRole& role, bool shared = false)
      : layers(arena, d, role.layers, shared),
        final_scale(arena.take_matrix<Sum>(role.final_norm ? d.rows : 0, 1)) {}

  PerLayer<LayerForInput<T, Sum>> layers;
  View<Sum> final_scale;
};

/// The gradient of the logits is saved in their place: it needs nothing that comes later, or, on a shard of
/// the head, nothing but the parts of all shards. These stand in front, where the shards make them the same.
template <class T, class Loss, class Sum = T>
struct StageForWeight {
  StageForWeight(Arena& arena, const Dimensions& d, const StageRole& role, bool shared = false)
      : all_parts(arena.take<LossParts<Sum>>(role.is_head_shard() ? d.rows : 0)),
        own_parts(arena.take<LossParts<Sum>>(role.is_head_shard() ? d.rows : 0)),
        layers(arena, d, role.layers, shared),
        final_unit(arena.take_matrix<T>(role.final_norm ? d.rows : 0, d.hidden)),
        d_logits(arena.take_matrix<T>(role.head ? d.rows : 0, vocabulary_of(d, role).count)),
        loss(arena.take<Loss>(role.head ? 1 : 0)) {}

  LossParts<Sum>* all_parts;  ///< of each row
  LossParts<Sum>* own_parts;
  PerLayer<LayerForWeight<T>> layers;
  View<T> final_unit, d_logits;
  Loss* loss;
};

/// A shard's gradient of the head's input before it knows the other shards: the part that is still to be
/// scaled, row by row, and the part of the targets, which is not.
template <class T>
struct EarlyGradient {
  EarlyGradient(Arena& arena, const Dimensions& d)
      : scaled(arena.take_matrix<T>(d.rows, d.hidden)), of_targets(arena.take_matrix<T>(d.rows, d.hidden)) {}

  View<T> scaled, of_targets;
};

/// The tensors that I leaves for the W of one layer. Gradients of gains are small, so I computes them and W
/// adds them.
template <class T, class Sum = T>
struct LayerInner {
  LayerInner(Arena& arena, const Dimensions& d)
      : d_attention_gain(arena.take_matrix<Sum>(1, d.hidden)),
        d_mlp_gain(arena.take_matrix<Sum>(1, d.hidden)),
        d_qkv(arena.take_matrix<T>(d.rows, 3 * d.hidden)),
        d_middle(arena.take_matrix<T>(d.rows, d.hidden)),
        d_gate_up(arena.take_matrix<T>(d.rows, 2 * d.ffn)) {}

  View<Sum> d_attention_gain, d_mlp_gain;
  View<T> d_qkv, d_middle, d_gate_up;
};

/// The tensors that I leaves for W. Boundary i is the input of layer i of the stage, the last one the output
/// of its last layer; the outer ones are dx and dy where the stage has them.
template <class T, class Sum = T>
struct StageInner {
  StageInner(Arena& arena, const Dimensions& d, const StageRole& role)
      : layers(arena, d, role.layers),
        d_final_gain(arena.take_matrix<Sum>(1, role.final_norm ? d.hidden : 0)),
        first_boundary(role.embedding ? 0 : 1),
        boundaries(arena.take_matrix<T>(boundary_count(role) * d.rows, d.hidden)) {}

  static int boundary_count(const StageRole& role) {
    return std::max(role.layers - 1 + (role.embedding ? 1 : 0) + (role.final_norm ? 1 : 0), 0);
  }

  PerLayer<LayerInner<T, Sum>> layers;
  View<Sum> d_final_gain;
  int first_boundary;
  View<T> boundaries;
};

/// Gradient of the keys and values of one layer for all tokens in front of the last slice: the sum over the
/// slices after each so far. Made from the sizes of the last slice.
template <class T>
struct LayerKvGradient {
  LayerKvGradient(Arena& arena, const Dimensions& last)
      : keys_and_values(arena.take_matrix<T>(last.sequences * last.before, 2 * last.hidden)) {}

  View<T> keys_and_values;
};

/// Temporary tensors of F and R.
template <class T, class Loss, class Sum = T>
struct ForwardTensors {
  /// Memory that F or R must keep for itself: the residual stream where there is no y, saved activations
  /// where none are kept.
  struct Own {
    bool stream;
    bool saved;
  };

  ForwardTensors(Arena& workspace, const Dimensions& d, const StageRole& role, const Own& own)
      : stream(workspace.take_matrix<T>(own.stream ? d.rows : 0, d.hidden)),
        normed(workspace.take_matrix<T>(role.has_norm() ? d.rows : 0, d.hidden)) {
    if (own.saved) {
      for_input = workspace.take_bytes(bytes_of<StageForInput<T, Sum>>(d, role, true));
      for_weight = workspace.take_bytes(bytes_of<StageForWeight<T, Loss>>(d, role, true));
    }
  }

  View<T> stream, normed;
  std::span<std::byte> for_input, for_weight;
};

/// Temporary tensors of I.
template <class T>
struct InputTensors {
  InputTensors(Arena& workspace, const Dimensions& d, const StageRole& role)
      : d_activated(workspace.take_matrix<T>(role.layers > 0 ? d.rows : 0, d.ffn)),
        d_hidden(workspace.take_matrix<T>(role.has_norm() ? d.rows : 0, d.hidden)),
        d_scores(workspace.take_matrix<T>(role.layers > 0 ? d.length : 0, d.keys())) {}

  View<T> d_activated, d_hidden, d_scores;
};

/// Temporary tensors of W.
template <class T>
struct WeightTensors {
  WeightTensors(Arena& workspace, const Dimensions& d, const StageRole& role)
      : normed(workspace.take_matrix<T>(role.has_norm() ? d.rows : 0, d.hidden)) {}

  View<T> normed;
};

}  // namespace ppsim::gpu_backend::transformer
