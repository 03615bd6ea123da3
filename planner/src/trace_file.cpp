#include "ppsim/planner/trace_file.hpp"

#include <sstream>

#include "ppsim/core/io/trace_csv.hpp"
#include "ppsim/planner/files.hpp"

namespace ppsim::planner {

Expected<void> write_trace_file(const std::string& path, const TimedRun& run) {
  const TracedRun only{"", run};
  return write_trace_file(path, {&only, 1});
}

Expected<void> write_trace_file(const std::string& path, std::span<const TracedRun> runs) {
  const std::string suffix = suffix_of(path);
  std::ostringstream text;
  if (suffix == ".csv") {
    write_trace_csv(text, runs[0].run.program, runs[0].run.trace);
  } else if (suffix == ".json") {
    write_chrome_trace(text, runs);
  } else if (suffix == ".pftrace") {
    write_perfetto_trace(text, runs);
  } else {
    return make_error(ErrorCode::bad_argument, "a trace is .csv, .json or .pftrace",
                      {.found = path, .expected = "one of these suffixes"});
  }
  return write_text_file(path, text.view());
}

Expected<TimedTrace> read_trace_file(const std::string& path, const Program& program) {
  PPSIM_ASSIGN_OR_RETURN(const auto text, read_text_file(path));
  auto trace = trace_from_csv(text, path, program);
  if (!trace) return trace;
  const std::vector<Violation> violations = trace_violations(program, *trace);
  if (violations.empty()) return trace;
  return make_error(ErrorCode::ill_formed,
                    "no run of this program can have done this: " + violations.front().message,
                    {.file = path});
}

}  // namespace ppsim::planner
