#pragma once

#include "ppsim/gpu_backend/executor/execute.hpp"

namespace ppsim::gpu_backend {

/// Checks that a run may begin.
/// Errors: bad_argument for a Program that cannot finish and should run as a graph; ill_formed naming the
/// messages and collectives whose ends name different tensors, which not even an unverified run survives;
/// refused without a certificate of this Program, these sizes and this transport.
[[nodiscard]] Expected<void> admit(const PreparedRun& run, const Certificate* certificate);

}  // namespace ppsim::gpu_backend
