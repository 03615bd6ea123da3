#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ppsim/core/execution/analyzed_program.hpp"
#include "ppsim/core/execution/timed_trace.hpp"
#include "ppsim/core/execution/well_formed.hpp"
#include "ppsim/core/ir/error.hpp"
#include "ppsim/core/ir/program.hpp"

namespace ppsim {

/// One line of a trace file, as it is written there.
struct TraceRow {
  int line = 0;  ///< 1-based
  RankId rank;
  std::string queue;        ///< several are joined by '+'
  std::int32_t index = 0;   ///< position in the rank's list
  std::string instruction;  ///< actions_text
  Nanoseconds start = 0;    ///< -1: it did not start
  Nanoseconds end = 0;      ///< -1: it did not complete
  friend bool operator==(const TraceRow&, const TraceRow&) = default;
};

/// Reads what write_trace_csv writes, whatever Program it is of. The header must be present, each line has
/// six cells and an end that is not before its start. Errors: bad_file with row, column, found and expected.
/// Order: that of the file.
[[nodiscard]] Expected<std::vector<TraceRow>> trace_rows_from_csv(std::string_view text,
                                                                  const std::string& file);

/// Reads the trace of a Program: every instruction occurs once, under its rank, queue, position and name. A
/// file has no rounds: all are 0, so that instants of several rounds fall into one.
/// Errors: bad_file with row, column, found and expected.
[[nodiscard]] Expected<TimedTrace> trace_from_csv(std::string_view text, const std::string& file,
                                                  const Program& program);

/// Things that no run of the Program can have done on its transport: an instruction that starts before what
/// it always waits for on its rank is complete, a RECV or a collective that completes before the other ends
/// have started. Analyzed for rendezvous(), these are the things that no run on any transport can have done.
[[nodiscard]] std::vector<Violation> trace_violations(const AnalyzedProgram& analyzed,
                                                      const TimedTrace& trace);

}  // namespace ppsim
