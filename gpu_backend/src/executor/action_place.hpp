#pragma once

#include "ppsim/core/ir/ids.hpp"

namespace ppsim::gpu_backend {

/// Where and when an action runs.
struct ActionPlace {
  RankId rank;
  InstructionId instruction;
};

}  // namespace ppsim::gpu_backend
