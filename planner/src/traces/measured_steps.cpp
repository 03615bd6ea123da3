#include "ppsim/planner/traces/measured_steps.hpp"

#include <algorithm>
#include <iterator>

#include "ppsim/planner/files.hpp"
#include "ppsim/planner/kineto.hpp"
#include "ppsim/planner/trace_file.hpp"

namespace ppsim::planner {
namespace {

bool is_own(const std::string& path) { return path == "-" || suffix_of(path) == ".csv"; }

bool is_nsys(const std::string& path) {
  const std::string suffix = suffix_of(path);
  return suffix == ".sqlite" || suffix == ".db" || suffix == ".nsys-rep";
}

Expected<std::vector<KinetoRanges>> profiler_ranges(const std::vector<std::string>& paths) {
  std::vector<KinetoRanges> ranges;
  for (const std::string& path : paths) {
    if (is_nsys(path)) {
      PPSIM_ASSIGN_OR_RETURN(auto processes, read_nsys(path));
      std::ranges::move(processes, std::back_inserter(ranges));
      continue;
    }
    PPSIM_ASSIGN_OR_RETURN(const auto files, kineto_files({path}));
    for (const std::string& file : files) {
      PPSIM_ASSIGN_OR_RETURN(const auto text, read_text_file(file));
      PPSIM_ASSIGN_OR_RETURN(auto read, read_kineto(text, file));
      ranges.push_back(std::move(read));
    }
  }
  return ranges;
}

}  // namespace

Expected<MeasuredSteps> read_measured_steps(const std::vector<std::string>& paths, const Program& program) {
  MeasuredSteps steps;
  const auto own = std::ranges::count_if(paths, is_own);
  if (own > 0 && static_cast<std::size_t>(own) < paths.size())
    return make_error(
        ErrorCode::bad_argument, "traces of two kinds",
        {.found = std::to_string(own) + " of " + std::to_string(paths.size()) + " files are .csv",
         .expected = "steps as .csv, or what a profiler wrote of one step of all ranks"});
  for (const std::string& path : paths) {
    if (own == 0) break;
    PPSIM_ASSIGN_OR_RETURN(auto trace, read_trace_file(path, program));
    steps.traces.push_back(std::move(trace));
  }
  if (own > 0 || paths.empty()) return steps;
  PPSIM_ASSIGN_OR_RETURN(const auto ranges, profiler_ranges(paths));
  PPSIM_ASSIGN_OR_RETURN(auto step, step_of_kineto(ranges, program));
  steps.traces.push_back(std::move(step.trace));
  steps.computation_alone = true;
  return steps;
}

}  // namespace ppsim::planner
