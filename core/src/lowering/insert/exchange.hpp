#pragma once

#include "ppsim/core/ir/op_kind.hpp"

namespace ppsim::lowering {

/// SEND_A and RECV_A: activations that go to another rank or come back.
[[nodiscard]] constexpr bool is_exchange(OpKind kind) {
  return kind == OpKind::send_activation || kind == OpKind::recv_activation;
}

}  // namespace ppsim::lowering
