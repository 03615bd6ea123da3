#pragma once

#include <string>
#include <vector>

#include "executor/worker.hpp"

namespace ppsim::gpu_backend {

/// When a step began in a process: the zero of its trace on the steady clock of the process, and from there
/// to the first start.
struct StepBegin {
  Nanoseconds zero_ns = 0;
  Nanoseconds first_start_ns = 0;
};

/// Which part of a run is here. `begins`: of every step, also where its trace is not kept.
struct PartOfRun {
  const Program& program;
  LocalRanks here;
  const std::vector<StepBegin>& begins;
};

/// The results of the ranks here that the other processes need.
[[nodiscard]] std::string result_bytes(const RunResult& result, const PartOfRun& part);

/// Puts the parts of all processes into the result of process 0, times on its clock, each step from the
/// moment when the first process began it; a step lasts from the first start to the last end of all.
/// Requires: `result.processes`. Errors: throws BackendError for bytes that are cut short.
void merge_results(RunResult& result, const Program& program, const std::vector<std::string>& parts);

}  // namespace ppsim::gpu_backend
