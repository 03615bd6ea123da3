#pragma once

#include <string>

#include "ppsim/gpu_backend/executor/execute.hpp"

namespace ppsim::gpu_backend {

/// The run that a process is about to begin, as all compare it.
struct RunIdentity {
  const Program& program;
  const SizeTable& sizes;
  std::string model;  ///< StageModel::identity()
};
/// Compares what all processes of `options` are about to run, after each has `checked` that it can; one alone
/// agrees with itself.
/// Errors: its own; that of the first process that cannot run; refused naming the first one that differs from
/// process 0, and in what; io when one is gone or does not come.
[[nodiscard]] Expected<void> agree(const Expected<void>& checked, const RunIdentity& run,
                                   const RunOptions& options);

/// The ranks of this process. Errors: bad_argument when the processes cannot have equally many.
[[nodiscard]] Expected<LocalRanks> ranks_here(const Program& program, const RunOptions& options);

/// Ends a run with the others: a process that has failed, by an `error` that is not null, stops them, and the
/// next run starts afresh.
void end_together(Bootstrap* processes, const Error* error);

/// "process 1 (rank 1)", "process 1 (ranks 2 to 3)".
[[nodiscard]] std::string process_text(int process, LocalRanks ranks);

}  // namespace ppsim::gpu_backend
