#pragma once

#include <memory>
#include <string>

namespace ppsim::gpu_backend {

/// Holds the primary context of every device. Null without a driver or a device: who runs there is told why.
[[nodiscard]] std::shared_ptr<void> hold_contexts(const std::string& cuda_library);

}  // namespace ppsim::gpu_backend
