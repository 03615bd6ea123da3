#pragma once

#include <vector>

#include "ppsim/core/ir/program.hpp"
#include "ppsim/gpu_backend/transport/transport.hpp"
#include "stage_model/tensor_map.hpp"

namespace ppsim::gpu_backend {

/// The pieces that an instruction of sends and receives moves, in member order. Both ends of a message have
/// the same pieces: activations lent to another rank are one tensor there, cut as their owner's are.
[[nodiscard]] std::vector<Transfer> transfers_of(const Program& program, const TensorMap& tensors,
                                                 ActionPlace place);

}  // namespace ppsim::gpu_backend
