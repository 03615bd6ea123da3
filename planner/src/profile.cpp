#include "ppsim/planner/profile.hpp"

#include "ppsim/core/ir/check.hpp"
#include "ppsim/gpu_backend/executor/backends.hpp"

namespace ppsim::planner {
namespace {

void add_missing(const Tables& measured, Tables& tables) {
  for (const auto& [key, spread] : measured.spreads) {
    if (tables.spreads.emplace(key, spread).second) tables.costs.set(key, measured.costs(key));
  }
}

std::vector<AnalyzedProgram> analyzed_for(std::span<const Program> programs, const RunOptions& run) {
  std::vector<AnalyzedProgram> all;
  for (const Program& program : programs) all.emplace_back(program, capabilities_of(run));
  return all;
}

Expected<std::vector<VerifiedRun>> measure_all(std::span<const AnalyzedProgram> programs,
                                               const StageModel& model, const RunOptions& run) {
  PPSIM_CHECK(!programs.empty() && run.steps >= 2, "a profile needs a Program, and steps after the first");
  std::vector<VerifiedRun> runs;
  for (const AnalyzedProgram& program : programs) {
    PPSIM_ASSIGN_OR_RETURN(auto result, verify_then_run(program, model, {.run = run}));
    if (result.run.outcome == RunOutcome::deadlock)
      return make_error(ErrorCode::deadlock, "a run to be profiled hung");
    runs.push_back(std::move(result));
  }
  return runs;
}

Tables tables_of(std::span<const VerifiedRun> runs, const SizeTable& sizes) {
  Tables tables;
  tables.sizes = sizes;
  for (const VerifiedRun& run : runs) add_missing(run.measured, tables);
  return tables;
}

}  // namespace

Expected<Tables> profile(std::span<const Program> programs, const StageModel& model, const RunOptions& run) {
  PPSIM_ASSIGN_OR_RETURN(const auto runs, measure_all(analyzed_for(programs, run), model, run));
  return tables_of(runs, sizes_on(run.backend, model, programs.front().pipeline()));
}

Expected<SharedProfile> profile_shared(std::span<const Program> programs, const StageModel& model,
                                       const RunOptions& run, int ranks_per_device) {
  const std::vector<AnalyzedProgram> analyzed = analyzed_for(programs, run);
  PPSIM_ASSIGN_OR_RETURN(const auto runs, measure_all(analyzed, model, run));
  std::vector<MeasuredRuns> measured;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const std::span<const TimedTrace> traces = runs[i].run.traces;
    measured.push_back({analyzed[i], traces.subspan(traces.size() > 1 ? 1 : 0)});
  }
  return SharedProfile{
      tables_of(runs, sizes_on(run.backend, model, programs.front().pipeline())),
      fit_slowdowns(measured, ranks_per_device, std::holds_alternative<CudaOptions>(run.backend))};
}

}  // namespace ppsim::planner
