#pragma once

#include "ppsim/planner/validate.hpp"

namespace ppsim::planner {

inline constexpr double kGiB = 1073741824.0;  ///< bytes

/// The operations that training takes for one token.
struct FlopCount {
  bool recomputed = false;  ///< the forward of the layers counts twice
  bool causal = true;       ///< attention counts half: what lies behind a token is masked
};
[[nodiscard]] double flops_per_token(const ModelDescription& model, std::int64_t sequence,
                                     const FlopCount& count);

/// Bytes of what a metric of memory counts, of the GPU that takes most; nothing for any other metric.
[[nodiscard]] std::optional<double> memory_unit(std::string_view metric);
[[nodiscard]] bool is_step_metric(std::string_view metric);
/// Those of both that exist.
[[nodiscard]] std::string known_metrics();

/// Seconds of a step of which a metric has this value.
/// Requires: is_step_metric, value > 0.
[[nodiscard]] double step_seconds(std::string_view metric, double value, const RunDescription& run);

}  // namespace ppsim::planner
