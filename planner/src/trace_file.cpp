#include "ppsim/planner/trace_file.hpp"

#include <sstream>

#include "ppsim/planner/files.hpp"
#include "ppsim/simulator/perfetto.hpp"

namespace ppsim {

Expected<void> write_trace_file(const std::string& path, const RunView& run) {
  std::ostringstream text;
  if (path.ends_with(".csv")) {
    write_trace_csv(text, run.program, run.trace);
  } else if (path.ends_with(".json")) {
    write_chrome_trace(text, run);
  } else if (path.ends_with(".pftrace")) {
    write_perfetto_trace(text, run);
  } else {
    return make_error(ErrorCode::bad_argument, "a trace is .csv, .json or .pftrace",
                      {.found = path, .expected = "one of these suffixes"});
  }
  return write_text_file(path, text.view());
}

}  // namespace ppsim
