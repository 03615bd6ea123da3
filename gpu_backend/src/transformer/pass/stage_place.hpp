#pragma once

#include <span>

#include "ppsim/gpu_backend/stage_model/stage_model.hpp"
#include "transformer/cpu/transformer_tensors.hpp"

namespace ppsim::gpu_backend::transformer {

/// One compute action: the piece that its stage is, the slices of its microbatch, and its tensors.
struct StagePlace {
  StageRole role;
  std::span<const Dimensions> slices;
  const ActionBuffers& buffers;

  [[nodiscard]] std::size_t slice() const { return as_size(buffers.slice); }
  [[nodiscard]] const Dimensions& d() const { return slices[slice()]; }
};

/// The state that one layer of a stage shares with other slices of its microbatch: the keys and values of
/// those before, which lie in what these have saved, and the sums of gradients that go from slice to slice.
template <class T, class Sum>
class AttendedSlices {
 public:
  /// Requires: a place that outlives it.
  AttendedSlices(const StagePlace& place, int layer) : place_(place), layer_(layer) {}

  /// The slices that this one reads; it is the last of them.
  [[nodiscard]] std::span<const Dimensions> all() const { return place_.slices.first(own() + 1); }
  [[nodiscard]] std::size_t own() const { return place_.slice(); }
  /// True of the last slice of a microbatch.
  [[nodiscard]] bool is_last() const { return own() + 1 == place_.slices.size(); }

  /// The joint projection of queries, keys and values of a slice before this one.
  [[nodiscard]] View<T> joint(std::size_t slice) const {
    Arena arena(place_.buffers.earlier[slice]);
    return StageForInput<T, Sum>(arena, place_.slices[slice], place_.role).layers[layer_].qkv;
  }
  /// The sums for the keys and values of all slices but the last, sequence by sequence, keys beside values.
  [[nodiscard]] View<Sum> gradients() const {
    Arena arena(place_.buffers.kv_gradient);
    const PerLayer<LayerKvGradient<Sum>> layers(arena, place_.slices.back(), place_.role.layers);
    return layers[layer_].keys_and_values;
  }
  /// Rows of a sequence in these.
  [[nodiscard]] Index stride() const { return place_.slices.back().before; }

 private:
  const StagePlace& place_;
  int layer_;
};

/// The tensors of causal attention between the joint projection of queries, keys and values and the output
/// projection.
template <class T, class Sum>
struct AttentionTensors {
  View<T> qkv, scores;
  View<Sum> statistics;
  View<T> attended;
  AttendedSlices<T, Sum> slices;
};

/// An RMSNorm in use: result = unit * gain, with unit = x * scale and one scale per row.
template <class T, class Sum>
struct NormTensors {
  View<T> gain, unit;
  View<Sum> scale;
};
/// Its gradients, which are written: that of x with that of the residual stream beside it.
template <class T, class Sum>
struct NormGradients {
  View<Sum>& d_gain;
  const View<T>* residual;  ///< null: zeros
  View<T>& d_x;
};

}  // namespace ppsim::gpu_backend::transformer
