#pragma once

#include <optional>
#include <span>
#include <string_view>

namespace ppsim::workload {

/// The tensors that a dense layer keeps beside its input for the backward, under a policy of jax.checkpoint
/// around each layer; the backward of a layer begins by recomputing the rest. Norms, rotation and activation
/// functions are always recomputed, the last product never: its output only enters the residual. But a stack
/// with SoftwareStack::reruns_layers computes a layer that keeps nothing again to its end.
struct CheckpointPolicy {
  std::string_view name;
  bool projections = false;  ///< queries, keys and values
  bool context = false;      ///< the output of attention, with the statistics of its softmax
  bool output = false;       ///< the product behind attention
  bool gates = false;        ///< the first products of the MLP
  friend bool operator==(const CheckpointPolicy&, const CheckpointPolicy&) = default;
};

/// By the names of jax.checkpoint_policies and of MaxText's remat_policy. MaxText's `full` is
/// nothing_saveable; those that offload are not there.
/// Source: jax.ad_checkpoint; AI-Hypercomputer/maxtext, layers/decoders.py, get_remat_policy.
[[nodiscard]] std::span<const CheckpointPolicy> checkpoint_policies();
[[nodiscard]] std::optional<CheckpointPolicy> checkpoint_policy_from_name(std::string_view name);

}  // namespace ppsim::workload

namespace ppsim {
using workload::checkpoint_policies;
using workload::checkpoint_policy_from_name;
using workload::CheckpointPolicy;
}  // namespace ppsim
