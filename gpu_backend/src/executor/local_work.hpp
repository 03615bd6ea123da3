#pragma once

#include <cstdint>

#include "ppsim/core/ir/op_kind.hpp"

namespace ppsim::gpu_backend {

/// The work of a device for an action of a compute or copy queue.
enum class LocalWork : std::uint8_t {
  compute,
  optimize,
  offload,
  reload,
  load,
  none  ///< the lifetime of a tensor is all that changes
};

/// Requires: neither a transfer nor a collective; the halves of an OVERLAP_F_B, not the pair.
[[nodiscard]] LocalWork local_work(OpKind kind);

}  // namespace ppsim::gpu_backend
