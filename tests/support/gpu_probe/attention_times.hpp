#pragma once

#include <string>
#include <vector>

#include "ppsim/gpu_backend/transformer/transformer.hpp"
#include "support/gpu_probe/probe_machine.hpp"

namespace ppsim::test {

/// Attention of a microbatch in one direction, by each of cuDNN's plans that has the same bits every time.
struct AttentionTime {
  std::string direction;              ///< forward, backward
  std::vector<Nanoseconds> plans_ns;  ///< medians of several rounds, in cuDNN's order: runs take the first
};

/// On the first of so many parts of device 0. Errors: throws BackendError; bad_argument where cuDNN cannot.
[[nodiscard]] std::vector<AttentionTime> time_attention(const ProbeMachine& machine,
                                                        const TransformerConfig& config, int parts);

}  // namespace ppsim::test
