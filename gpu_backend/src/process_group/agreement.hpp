#pragma once

#include "executor/worker.hpp"
#include "ppsim/gpu_backend/executor/execute.hpp"

namespace ppsim::gpu_backend {

/// The ranks of this process. Errors: bad_argument when the processes cannot have equally many.
[[nodiscard]] Expected<RankRange> ranks_here(const Program& program, const RunOptions& options);

/// "process 1 (rank 1)", "process 1 (ranks 2 to 3)".
[[nodiscard]] std::string process_text(int process, RankRange ranks);

}  // namespace ppsim::gpu_backend
