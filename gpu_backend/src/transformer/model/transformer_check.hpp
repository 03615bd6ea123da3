#pragma once

#include "ppsim/core/ir/error.hpp"
#include "ppsim/gpu_backend/transformer/transformer.hpp"

namespace ppsim::gpu_backend::transformer {

/// Errors: bad_argument with every broken rule.
[[nodiscard]] Expected<void> check_config(const TransformerConfig& config);

}  // namespace ppsim::gpu_backend::transformer
