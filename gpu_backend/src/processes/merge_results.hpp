#pragma once

#include <string>
#include <vector>

#include "worker.hpp"

namespace ppsim {

/// Which part of a run is here. `origins_ns`: when each step began, on the steady clock of this process.
struct PartOfRun {
  const Program& program;
  RankRange here;
  const std::vector<Nanoseconds>& origins_ns;
};

/// What the other processes need to know of the ranks here.
[[nodiscard]] std::string result_bytes(const RunResult& result, const PartOfRun& part);

/// Puts the parts of all processes into the result of process 0, times on its clock, each step from the
/// moment when the first process began it; a step lasts from there to the last end of all.
/// Requires: `result.processes`. Errors: throws BackendError for bytes that are cut short.
void merge_results(RunResult& result, const Program& program, const std::vector<std::string>& parts);

}  // namespace ppsim
