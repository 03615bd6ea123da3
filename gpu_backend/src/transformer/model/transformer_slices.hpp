#pragma once

#include <vector>

#include "ppsim/core/ir/program.hpp"
#include "transformer/cpu/transformer_tensors.hpp"

namespace ppsim::gpu_backend::transformer {

/// Sizes of the slices of a microbatch in their order: those of the configuration, else as equal as can be.
/// A microbatch in one slice is whole, whatever the configuration says.
/// Requires: check_slices.
[[nodiscard]] std::vector<Dimensions> slices_of(const TransformerConfig& config, int slices);

/// Checks that a sequence can be cut into so many slices. Errors: bad_argument.
[[nodiscard]] Expected<void> check_slices(const TransformerConfig& config, int slices);

/// Checks that the saved activations of every slice stay on the device from its F to its B or I, as long as
/// other slices read its keys and values.
/// Errors: bad_argument naming the first action that takes them away, or an F without backward.
[[nodiscard]] Expected<void> check_kept_slices(const Program& program);

}  // namespace ppsim::gpu_backend::transformer
