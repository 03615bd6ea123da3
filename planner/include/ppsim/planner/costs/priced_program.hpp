#pragma once

#include "ppsim/core/ir/program.hpp"
#include "ppsim/simulator/engine/simulate.hpp"
#include "ppsim/workload/analytic.hpp"

namespace ppsim::planner {

/// The makespan and, of training, what the end of each rank adds beyond the actions of the Program: gradients
/// are reduced first, then their norm joins all ranks, then weights are updated. `ends` may be empty.
[[nodiscard]] Nanoseconds whole_step(const Program& program, const IdVector<RankId, StepEnd>& ends,
                                     const StepTimes& times);

/// A Program that is compiled once and simulated under the costs of many workloads: what-if points that keep
/// the schedule and the order of its actions.
class PricedProgram {
 public:
  /// Transfers are rendezvous.
  /// Errors: those of evaluate for a Program that cannot run.
  [[nodiscard]] static Expected<PricedProgram> make(Program program);

  /// The whole step, or the pipeline alone where the workload asks for it.
  /// Errors: those of analytic_costs and bind_costs.
  [[nodiscard]] Expected<Nanoseconds> step(const Workload& workload);

 private:
  PricedProgram(Program program, CompiledProgram compiled)
      : program_(std::move(program)), compiled_(std::move(compiled)) {}

  Program program_;
  CompiledProgram compiled_;
  SimulationScratch scratch_;
};

}  // namespace ppsim::planner

namespace ppsim {
using planner::PricedProgram;
using planner::whole_step;
}  // namespace ppsim
