#pragma once

#include <span>
#include <string>

#include "ppsim/planner/evaluate.hpp"

namespace ppsim {

/// A self-contained HTML page of one or several simulated steps with their assumptions and hashes.
/// Requires: at least one.
/// Errors: io.
[[nodiscard]] Expected<void> write_report_file(const std::string& path, std::span<const Evaluation> steps);

/// The same for a measured run, whose timeline stands over the simulated one.
/// Requires: a finished run of `program`.
/// Errors: io.
[[nodiscard]] Expected<void> write_run_report(const std::string& path, const RunView& measured,
                                              const TimedTrace& simulated);

}  // namespace ppsim
