#pragma once

#include <string>
#include <vector>

#include "worker.hpp"

namespace ppsim {

/// What the other processes need to know of the ranks here. `origins_ns`: when each step began, on the steady
/// clock of this process.
[[nodiscard]] std::string result_bytes(const RunResult& result, const RunInput& input,
                                       const std::vector<Nanoseconds>& origins_ns);

/// Puts the parts of all processes into the result of process 0, times on its clock, each step from the
/// moment when the first process began it.
/// Requires: `result.processes`. Errors: throws BackendError for bytes that are cut short.
void merge_results(RunResult& result, const Program& program, const std::vector<std::string>& parts);

}  // namespace ppsim
