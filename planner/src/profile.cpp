#include "ppsim/planner/profile.hpp"

#include "ppsim/core/ir/check.hpp"

namespace ppsim::planner {
namespace {

void add_missing(const Tables& measured, Tables& tables) {
  for (const auto& [key, spread] : measured.spreads) {
    if (tables.spreads.emplace(key, spread).second) tables.costs.set(key, measured.costs(key));
  }
}

}  // namespace

Expected<Tables> profile(std::span<const Program> programs, const StageModel& model, const RunOptions& run) {
  PPSIM_CHECK(!programs.empty() && run.steps >= 2, "a profile needs a Program, and steps after the first");
  Tables tables;
  tables.sizes = sizes_on(run.backend, model, programs.front().pipeline());
  for (const Program& program : programs) {
    PPSIM_ASSIGN_OR_RETURN(const auto result, verify_then_run(program, model, {.run = run}));
    if (result.run.outcome == RunOutcome::deadlock)
      return make_error(ErrorCode::deadlock, "a run to be profiled hung");
    add_missing(result.measured, tables);
  }
  return tables;
}

}  // namespace ppsim::planner
