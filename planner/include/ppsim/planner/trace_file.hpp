#pragma once

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

/// Reads a `.csv` trace of the Program, simulated or measured; `-` is stdin.
/// Errors: those of trace_from_csv; ill_formed with the first of trace_violations; io.
[[nodiscard]] Expected<TimedTrace> read_trace_file(const std::string& path, const Program& program);

}  // namespace ppsim::planner

namespace ppsim {
using planner::read_trace_file;
using planner::write_trace_file;
}  // namespace ppsim
