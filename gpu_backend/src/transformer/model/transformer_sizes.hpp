#pragma once

#include <cstdint>
#include <vector>

#include "ppsim/core/ir/pipeline.hpp"
#include "ppsim/core/ir/tables.hpp"
#include "stage_model/received_outputs.hpp"
#include "transformer/cpu/transformer_tensors.hpp"

namespace ppsim::gpu_backend::transformer {

inline void set_size(SizeTable& table, const SizeClass& key, std::size_t bytes) {
  constexpr std::size_t kUnit = Arena::kAlignment;
  table.set(key, static_cast<Bytes>((bytes + kUnit - 1) / kUnit * kUnit));
}

template <class T>
[[nodiscard]] std::size_t boundary_bytes(const Dimensions& d) {
  return as_size(d.rows * d.hidden) * sizeof(T);
}

/// A slice on a stage, whose sizes go to a table; slice -1: the whole microbatch.
struct SizedSlice {
  SizeTable& table;
  const Dimensions& d;
  const StageRole& role;
  std::int32_t stage, slice;
  std::size_t inputs = 1;  ///< outputs of other ranks that the stage reads

  void set(TensorKind kind, std::size_t bytes) const { set_size(table, {kind, stage, -1, slice}, bytes); }
  void set_workspace(OpKind op, std::size_t bytes) const {
    set_size(table, {TensorKind::workspace, stage, -1, slice, op}, bytes);
  }
};

template <class T>
[[nodiscard]] std::size_t outgoing_bytes(const SizedSlice& own) {
  if (own.role.gradient_in_forward) return bytes_of<EarlyGradient<T>>(own.d);
  return own.role.embedding ? 0 : boundary_bytes<T>(own.d);
}

/// All tensors but workspaces, of stored numbers T; F saves a ForWeight for W.
template <class T, class ForWeight, class Sum = T>
void set_tensor_sizes(const SizedSlice& own) {
  const std::size_t tokens = as_size(own.d.rows) * sizeof(std::int32_t);
  const std::size_t boundary = boundary_bytes<T>(own.d);
  const std::size_t for_input = bytes_of<StageForInput<T, Sum>>(own.d, own.role);
  const std::size_t for_weight = bytes_of<ForWeight>(own.d, own.role);
  own.set(TensorKind::boundary_input, own.role.embedding ? tokens : own.inputs * boundary);
  own.set(TensorKind::boundary_output, own.role.head ? 0 : boundary);
  own.set(TensorKind::incoming_gradient, own.role.head ? 0 : boundary);
  own.set(TensorKind::outgoing_gradient, outgoing_bytes<T>(own));
  own.set(TensorKind::saved_for_input, for_input);
  own.set(TensorKind::saved_for_weight, for_weight);
  own.set(TensorKind::lent_activations, for_input + for_weight);
  own.set(TensorKind::inner_gradients, bytes_of<StageInner<T, Sum>>(own.d, own.role));
}

/// Sizes of what lies on an edge are looked up by both of its ends where they depend on the slice.
template <class T>
void set_edge_sizes(SizeTable& table, const std::vector<Dimensions>& slices, const Pipeline& pipeline) {
  for (const StageEdge& edge : pipeline.spec().edges) {
    for (std::int32_t k = 0; k < pipeline.slices(); ++k) {
      const std::size_t bytes = boundary_bytes<T>(slices[as_size(k)]);
      set_size(table, {TensorKind::incoming_gradient, edge.from.value(), edge.to.value(), k}, bytes);
      set_size(table, {TensorKind::outgoing_gradient, edge.to.value(), edge.from.value(), k}, bytes);
    }
  }
}

struct SizedStage {
  StageRole role;
  std::int32_t stage;
  std::size_t inputs = 1;
};
[[nodiscard]] inline SizedStage sized_stage(const Pipeline& pipeline, const StageRole& role, StageId stage) {
  return {role, stage.value(), as_size(received_outputs(pipeline, stage))};
}

/// The number of a microbatch is what all side edges have.
inline void set_side_sizes(SizeTable& table, const Pipeline& pipeline) {
  for (const StageEdge& edge : pipeline.spec().side_edges) {
    set_size(table, {TensorKind::boundary_output, edge.from.value(), edge.to.value()}, sizeof(std::int64_t));
    set_size(table, {TensorKind::boundary_input, edge.to.value(), edge.from.value()}, sizeof(std::int64_t));
  }
}
/// The tensors of a stage for all slices; `set_workspaces` gets each SizedSlice for the rest.
template <class T, class ForWeight, class Sum, class SetWorkspaces>
void set_stage_sizes(SizeTable& table, const std::vector<Dimensions>& slices, const SizedStage& own,
                     const SetWorkspaces& set_workspaces) {
  for (std::size_t k = 0; k < slices.size(); ++k) {
    const std::int32_t number = slices.size() == 1 ? -1 : static_cast<std::int32_t>(k);
    const SizedSlice slice{table, slices[k], own.role, own.stage, number, own.inputs};
    set_tensor_sizes<T, ForWeight, Sum>(slice);
    set_workspaces(slice);
  }
  if (slices.size() == 1) return;
  set_size(table, {TensorKind::kv_gradient, own.stage},
           bytes_of<PerLayer<LayerKvGradient<Sum>>>(slices.back(), own.role.layers));
}

}  // namespace ppsim::gpu_backend::transformer
