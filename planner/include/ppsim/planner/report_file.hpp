#pragma once

#include <span>
#include <string>

#include "ppsim/planner/evaluate.hpp"

namespace ppsim::planner {

/// The work of a step beside that of the first one of its page.
struct ReportWork {
  std::string text;  ///< "2.00x"
  bool same = true;
};

/// A self-contained HTML page of one or several simulated steps with their assumptions and hashes, with the
/// work of each where it is not the same, and with the command that wrote it where there was one.
/// Requires: at least one; as many `works`, or none.
/// Errors: io.
[[nodiscard]] Expected<void> write_report_file(const std::string& path, std::span<const SimulatedStep> steps,
                                               std::span<const ReportWork> works = {},
                                               const std::string& command = {});

/// The same for a measured run, whose timeline stands over the simulated one.
/// Requires: a finished run of `program`.
/// Errors: io.
[[nodiscard]] Expected<void> write_run_report(const std::string& path, const TimedRun& measured,
                                              const TimedTrace& simulated, const std::string& command = {});
/// The same over a simulated step with all that its page says by itself: its end, model, layout and memory.
[[nodiscard]] Expected<void> write_run_report(const std::string& path, const TimedRun& measured,
                                              const SimulatedStep& simulated,
                                              const std::string& command = {});

}  // namespace ppsim::planner

namespace ppsim {
using planner::ReportWork;
using planner::write_report_file;
using planner::write_run_report;
}  // namespace ppsim
