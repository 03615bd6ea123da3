#include "ppsim/planner/costs/priced_program.hpp"

#include <algorithm>

#include "ppsim/core/ir/inference.hpp"
#include "ppsim/simulator/engine/stuck.hpp"
#include "require_well_formed.hpp"

namespace ppsim::planner {

Nanoseconds whole_step(const Program& program, const IdVector<RankId, StepEnd>& ends,
                       const StepTimes& times) {
  if (ends.empty() || !trains(program)) return times.makespan;
  const bool reduces = program.has(OpKind::reduce_grad);
  const bool updates = program.has(OpKind::optimizer);
  Nanoseconds reduced = times.makespan;
  Nanoseconds update = 0;
  for (const RankId rank : times.ranks.ids()) {
    if (!reduces) reduced = std::max(reduced, checked_add(times.ranks[rank].end, ends[rank].reduction));
    if (!updates) update = std::max(update, ends[rank].update);
  }
  return checked_add(reduced, update);
}

Expected<PricedProgram> PricedProgram::make(Program program) {
  const AnalyzedProgram analyzed(program, rendezvous());
  PPSIM_RETURN_IF_ERROR(require_well_formed(analyzed));
  auto compiled = compile(analyzed);
  if (!compiled) return tl::unexpected(to_error(program, compiled.error()));
  return PricedProgram(std::move(program), *std::move(compiled));
}

Expected<Nanoseconds> PricedProgram::step(const Workload& workload) {
  PPSIM_ASSIGN_OR_RETURN(const auto costs, analytic_costs(workload, program_.pipeline()));
  PPSIM_ASSIGN_OR_RETURN(const auto bound, bind_costs(compiled_, costs.tables.costs));
  const StepTimes times = simulate(compiled_, bound, scratch_);
  return workload.whole_step ? whole_step(program_, costs.ends, times) : times.makespan;
}

}  // namespace ppsim::planner
