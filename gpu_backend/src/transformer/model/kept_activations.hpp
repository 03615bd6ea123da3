#pragma once

#include <functional>

#include "ppsim/core/ir/program.hpp"

namespace ppsim::gpu_backend::transformer {

/// Saved activations that others than their own I read, or that change until it.
struct KeptActivations {
  std::function<bool(const Action&)> concerns;  ///< whether an action is of a stage that saves such
  const char* why;                              ///< the use that is made of them
  const char* of;                               ///< their source, for an F without backward
};

/// Checks that they stay on the device from F to B or I.
/// Errors: bad_argument naming the first R, OFFLOAD or SEND_A of them, or an F without backward.
[[nodiscard]] Expected<void> check_kept(const Program& program, const KeptActivations& kept);

}  // namespace ppsim::gpu_backend::transformer
