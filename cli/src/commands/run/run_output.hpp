#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "command.hpp"
#include "ppsim/planner/run_comparison.hpp"
#include "ppsim/planner/verified_run.hpp"

namespace ppsim::cli {

/// A finished run and the data of its report. Only refers to its parts.
struct RunReport {
  const std::string& backend;
  const std::string& transport;
  const Program& program;
  const VerifiedRun& run;
  bool given_costs = false;                   ///< the user's costs predict the steps
  const RunComparison* comparison = nullptr;  ///< where it was asked for
  int replicas = 1;                           ///< that the ranks are of
  std::string kernels = {};                   ///< the kernels that ran where others could
  std::uint64_t seed = 1;                     ///< of steps that were disturbed
  bool exact = false;                         ///< in integers modulo 2^64, whose loss means nothing
};

/// Whether the files that are named can be written: before a long run rather than after it.
[[nodiscard]] Expected<void> check_outputs(const std::vector<std::string>& paths);
/// Checks that the program has optimizer steps if an option for them is given.
/// Errors: bad_argument.
[[nodiscard]] Expected<void> check_updates(const std::string& option, const Program& program);
[[nodiscard]] Json run_json(const RunReport& report);
/// The host's time for enqueuing, in total and for each action; null where nothing was enqueued.
[[nodiscard]] Json host_json(const HostTime& host);
void print_run(const RunReport& report);
/// Prints who waits for whom in a run that hung. Returns: the exit code.
int print_hang(const VerifiedRun& result, const Output& output);

}  // namespace ppsim::cli
