#pragma once

#include "costs/costed_program.hpp"
#include "ppsim/planner/validate.hpp"

namespace ppsim::planner {

/// Errors: an unknown cluster or stack, GPUs that do not fill their nodes, a layout that is none.
[[nodiscard]] Expected<Workload> workload_of(const RunDescription& run);

/// Whether runs of dense models on it are those that constants are fitted to.
[[nodiscard]] bool is_fitted_to(const ClusterDescription& cluster);

/// The fitted constants, except those that the effects replace: a collective that runs beside products takes
/// its share of all multiprocessors from them for as long as it runs.
[[nodiscard]] FittedConstants constants_with(const RunEffects& effects, FittedConstants constants,
                                             const GpuDescription& gpu);

/// The schedule of a run. Errors: those of costed_program.
[[nodiscard]] Expected<CostedProgram> program_of(const RunDescription& run, const Workload& work);

}  // namespace ppsim::planner
