#pragma once

#include <string>
#include <vector>

#include "ppsim/gpu_backend/transformer/transformer.hpp"
#include "support/gpu_probe/probe_machine.hpp"

namespace ppsim::test {

/// One product of a stage, as the executor computes it with --algorithms, and by a plain call of cuBLASLt:
/// its first suggestion for packed matrices, with the same workspace.
struct ProductTime {
  std::string weights;  ///< qkv, projection, gate_up, down, head
  std::string action;   ///< F, I, W
  std::int64_t rows = 0, columns = 0, inner = 0;
  Nanoseconds backend_ns = 0;  ///< medians of several rounds, taken in turn
  Nanoseconds plain_ns = 0;
  Nanoseconds told_ns = 0;  ///< plain, chosen for as many multiprocessors as the part has
  Nanoseconds best_ns = 0;  ///< plain, by the fastest of all algorithms that cuBLASLt proposes
  int algorithms = 0;       ///< how many these are
};

/// Times the products of a layer and of the head in bf16, on the first of so many parts of device 0.
/// Errors: throws BackendError.
[[nodiscard]] std::vector<ProductTime> time_products(const ProbeMachine& machine,
                                                     const TransformerConfig& config, int parts);

}  // namespace ppsim::test
