#include "ppsim/planner/trace_file.hpp"

#include <filesystem>
#include <iomanip>
#include <sstream>

#include "ppsim/core/io/trace_csv.hpp"
#include "ppsim/core/ir/check.hpp"
#include "ppsim/planner/files.hpp"

namespace ppsim::planner {
namespace {

namespace fs = std::filesystem;

std::string step_file(const std::string& folder, std::size_t step) {
  std::ostringstream name;
  name << "step-" << std::setw(6) << std::setfill('0') << step << ".csv";
  return (fs::path(folder) / name.str()).string();
}

}  // namespace

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

Expected<void> check_trace_folder(const std::string& folder) {
  std::error_code failed;
  fs::create_directories(folder, failed);
  if (failed) return make_error(ErrorCode::io, failed.message(), {.file = folder});
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, failed)) {
    if (suffix_of(entry.path().string()) != ".csv") continue;
    return make_error(ErrorCode::bad_argument, "the folder has traces already",
                      {.file = folder, .found = "files that end in .csv", .expected = "another folder"});
  }
  if (failed) return make_error(ErrorCode::io, failed.message(), {.file = folder});
  return check_writable(step_file(folder, 1));
}

Expected<void> write_step_traces(const std::string& folder, const Program& program,
                                 std::span<const TimedTrace> traces, std::size_t last_step) {
  PPSIM_CHECK(traces.size() <= last_step, "see Requires");
  const std::size_t before = last_step - traces.size();
  for (std::size_t i = before == 0 && traces.size() > 1 ? 1 : 0; i < traces.size(); ++i) {
    std::ostringstream text;
    write_trace_csv(text, program, traces[i]);
    PPSIM_RETURN_IF_ERROR(write_text_file(step_file(folder, before + i + 1), text.view()));
  }
  return {};
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
