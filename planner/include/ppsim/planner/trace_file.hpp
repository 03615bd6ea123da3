#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "ppsim/core/ir/error.hpp"
#include "ppsim/simulator/metrics/metrics.hpp"
#include "ppsim/simulator/writers/perfetto.hpp"

namespace ppsim::planner {

/// Writes a simulated or measured run in the format of the path's suffix: `.csv`, `.json` (Chrome and
/// Perfetto) or `.pftrace` (Perfetto protobuf).
/// Errors: bad_argument for another suffix; io.
[[nodiscard]] Expected<void> write_trace_file(const std::string& path, const TimedRun& run);
/// Several runs beside each other; `.csv` holds the first alone.
/// Requires: at least one.
[[nodiscard]] Expected<void> write_trace_file(const std::string& path, std::span<const TracedRun> runs);

/// Checks that write_step_traces() can be expected to succeed, before work that takes long; makes the folder.
/// Errors: bad_argument where it has traces already, which would be taken for steps of one run; io.
[[nodiscard]] Expected<void> check_trace_folder(const std::string& folder);
/// Writes `step-000002.csv` and so on: every step but the first, which warms up, or the only one.
/// `last_step` is the number of the last, from 1 on. Requires: as many traces at most. Errors: io.
[[nodiscard]] Expected<void> write_step_traces(const std::string& folder, const Program& program,
                                               std::span<const TimedTrace> traces, std::size_t last_step);

/// Reads a `.csv` trace of the Program, simulated or measured; `-` is stdin. Where messages are there before
/// they are sent, and clocks of ranks that differ by up to 50 us from that of rank 0 explain it, these are
/// moved as little as that needs.
/// Errors: those of trace_from_csv; ill_formed with the first of trace_violations; io.
[[nodiscard]] Expected<TimedTrace> read_trace_file(const std::string& path, const Program& program);

}  // namespace ppsim::planner

namespace ppsim {
using planner::check_trace_folder;
using planner::read_trace_file;
using planner::write_step_traces;
using planner::write_trace_file;
}  // namespace ppsim
