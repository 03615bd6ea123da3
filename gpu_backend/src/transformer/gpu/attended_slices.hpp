#pragma once

#include "ppsim/gpu_backend/stage_model/stage_model.hpp"
#include "stage_kernels.hpp"

namespace ppsim::gpu_backend::cuda {

/// What one layer of a stage shares with other slices of its microbatch: the keys and values of those before,
/// which lie in what these have saved, and the sums of gradients that go from slice to slice.
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

}  // namespace ppsim::gpu_backend::cuda
