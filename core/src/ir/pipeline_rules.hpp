#pragma once

#include "ppsim/core/ir/error.hpp"
#include "ppsim/core/ir/pipeline.hpp"

namespace ppsim {

/// Whether ranks, stages, microbatches and slices are within the limits of a Pipeline, whatever else `spec`
/// has. Errors: bad_argument naming every count that is not.
[[nodiscard]] Expected<void> check_counts(const PipelineSpec& spec);

/// Requires: check_counts() holds and defaults are filled in. Errors: bad_argument with every rule that is
/// broken.
[[nodiscard]] Expected<void> check_rules(const PipelineSpec& spec);

}  // namespace ppsim
