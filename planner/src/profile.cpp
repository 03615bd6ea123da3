#include "ppsim/planner/profile.hpp"

#include "ppsim/core/check.hpp"
#include "ppsim/gpu_backend/measured_costs.hpp"

namespace ppsim {
namespace {

void add_missing(const Durations& durations, Tables& tables) {
  const CostTable means = mean_costs(durations);
  for (const auto& [key, spread] : cost_spreads(durations)) {
    if (tables.spreads.emplace(key, spread).second) tables.costs.set(key, means(key));
  }
}

}  // namespace

Expected<Tables> profile(std::span<const Program> programs, const StageModel& model, const RunOptions& run) {
  PPSIM_CHECK(!programs.empty() && run.steps >= 2, "a profile needs a Program, and steps after the first");
  Tables tables;
  tables.sizes = sizes_on(run.backend, model, programs.front().pipeline());
  for (const Program& program : programs) {
    const auto result = verify_then_run(program, model, {.run = run});
    if (!result) return tl::unexpected(result.error());
    if (result->run.outcome == RunOutcome::deadlock)
      return make_error(ErrorCode::deadlock, "a run to be profiled hung");
    const auto traces = std::span<const TimedTrace>(result->run.traces).subspan(1);
    add_missing(measured_durations(program, run.capabilities, traces), tables);
  }
  return tables;
}

}  // namespace ppsim
