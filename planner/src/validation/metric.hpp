#pragma once

#include "ppsim/planner/validate.hpp"

namespace ppsim::planner {

/// What the training of one token takes in operations.
struct FlopCount {
  bool recomputed = false;  ///< the forward of the layers counts twice
  bool causal = true;       ///< attention counts half: what lies behind a token is masked
};
[[nodiscard]] double flops_per_token(const ModelDescription& model, std::int64_t sequence,
                                     const FlopCount& count);

/// A figure by the name of its metric, as seconds of a step or as memory.
struct Figure {
  std::optional<double> seconds;
  std::optional<double> bytes;  ///< of the GPU that takes most
};
/// Requires: value > 0.
/// Errors: the reason why it is neither.
[[nodiscard]] tl::expected<Figure, std::string> figure_of(const std::string& metric, double value,
                                                          const RunDescription& run);

}  // namespace ppsim::planner
