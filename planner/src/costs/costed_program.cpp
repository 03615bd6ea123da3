#include "costs/costed_program.hpp"

#include "ppsim/planner/ir_source.hpp"

namespace ppsim::planner {

Expected<CostedProgram> costed_program(const Workload& work, const std::string& schedule,
                                       std::optional<int> chunks) {
  ScheduleParameters parameters;
  parameters.ranks = work.parallelism.pipeline;
  parameters.microbatches = work.parallelism.microbatches();
  parameters.chunks = chunks;
  PPSIM_ASSIGN_OR_RETURN(const auto ir, ir_from_name(schedule, parameters, work));
  PPSIM_ASSIGN_OR_RETURN(auto costs, bind_cost_source(work, pipeline_of(ir)));
  PPSIM_ASSIGN_OR_RETURN(auto program,
                         to_program(ir, {.recompute = work.parallelism.recompute}, &costs.tables.costs));
  return CostedProgram{std::move(program), std::move(costs)};
}

}  // namespace ppsim::planner
