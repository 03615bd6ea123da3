#include "ppsim/planner/traces/measured_steps.hpp"

#include <algorithm>
#include <filesystem>
#include <iterator>

#include "ppsim/planner/files.hpp"
#include "ppsim/planner/kineto.hpp"
#include "ppsim/planner/trace_file.hpp"
#include "ppsim/simulator/metrics/kind_times.hpp"

namespace ppsim::planner {
namespace {

bool is_own(const std::string& path) { return path == "-" || suffix_of(path) == ".csv"; }

bool is_nsys(const std::string& path) {
  const std::string suffix = suffix_of(path);
  return suffix == ".sqlite" || suffix == ".db" || suffix == ".nsys-rep";
}

/// Files, and in place of a folder of steps as `.csv` these steps, by name.
Expected<std::vector<std::string>> with_steps_of_folders(const std::vector<std::string>& paths) {
  std::vector<std::string> files;
  for (const std::string& path : paths) {
    std::vector<std::string> steps;
    std::error_code failed;
    if (std::filesystem::is_directory(path, failed)) {
      for (const auto& entry : std::filesystem::directory_iterator(path, failed))
        if (suffix_of(entry.path().string()) == ".csv") steps.push_back(entry.path().string());
      if (failed) return make_error(ErrorCode::io, failed.message(), {.file = path});
    }
    std::ranges::sort(steps);
    if (steps.empty()) steps.push_back(path);
    std::ranges::move(steps, std::back_inserter(files));
  }
  return files;
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

std::size_t leave_out_disturbed(MeasuredSteps& steps) {
  constexpr std::size_t kFewest = 8;
  constexpr double kFence = 1.5;
  constexpr double kClose = 0.01;
  const std::size_t count = steps.traces.size();
  if (count < kFewest) return 0;
  std::vector<Nanoseconds> sorted;
  for (const TimedTrace& trace : steps.traces) sorted.push_back(trace_span(trace));
  std::ranges::sort(sorted);
  const Nanoseconds lower = sorted[count / 4];
  const Nanoseconds upper = sorted[count - 1 - count / 4];
  const double fence =
      std::max(kFence * static_cast<double>(upper - lower), kClose * static_cast<double>(sorted[count / 2]));
  return std::erase_if(steps.traces, [&](const TimedTrace& trace) {
    const Nanoseconds step = trace_span(trace);
    return static_cast<double>(lower - step) > fence || static_cast<double>(step - upper) > fence;
  });
}

double mean_step(const std::vector<TimedTrace>& traces) {
  double sum = 0;
  for (const TimedTrace& trace : traces) sum += static_cast<double>(trace_span(trace));
  return sum / static_cast<double>(traces.size());
}

Expected<MeasuredSteps> read_measured_steps(const std::vector<std::string>& given, const Program& program) {
  MeasuredSteps steps;
  PPSIM_ASSIGN_OR_RETURN(const auto paths, with_steps_of_folders(given));
  const auto own = std::ranges::count_if(paths, is_own);
  if (own > 0 && as_size(own) < paths.size())
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
