#include "ppsim/workload/checkpoint_policy.hpp"

#include <algorithm>
#include <array>

namespace ppsim::workload {
namespace {

// Attention is one kernel and no dot product here, so that the policies of JAX that keep dot products do not
// keep what it makes.
constexpr auto kPolicies = std::to_array<CheckpointPolicy>({
    {.name = "nothing_saveable"},
    {.name = "save_out_proj", .output = true},
    {.name = "save_qkv_proj", .projections = true},
    {.name = "save_dot_except_mlp", .projections = true, .output = true},
    {.name = "save_dot_except_mlpwi", .projections = true, .output = true},
    {.name = "save_dot_with_context_except_mlp", .projections = true, .context = true, .output = true},
    {.name = "dots_with_no_batch_dims_saveable", .projections = true, .output = true, .gates = true},
    {.name = "dots_saveable", .projections = true, .output = true, .gates = true},
    {.name = "minimal", .projections = true, .output = true, .gates = true},
    {.name = "minimal_flash", .projections = true, .context = true, .output = true, .gates = true},
    {.name = "minimal_with_context", .projections = true, .context = true, .output = true, .gates = true},
});

}  // namespace

std::span<const CheckpointPolicy> checkpoint_policies() { return kPolicies; }

std::optional<CheckpointPolicy> checkpoint_policy_from_name(std::string_view name) {
  const auto* const found = std::ranges::find(kPolicies, name, &CheckpointPolicy::name);
  if (found == kPolicies.end()) return std::nullopt;
  return *found;
}

}  // namespace ppsim::workload
