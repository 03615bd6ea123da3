#pragma once

#include "ppsim/planner/evaluate.hpp"
#include "ppsim/simulator/effects/pipeline_copies.hpp"

namespace ppsim::planner {

/// Facts about a cluster's network beyond its description.
struct JobNetwork {
  int nics = 0;                 ///< of a node; 0: one for each GPU
  double oversubscription = 0;  ///< all NICs together over what passes between nodes at once; 0: no limit
  bool rails = false;           ///< GPUs with the same place in their nodes are on one switch
  Folding folding = Folding::where_equal;
};

/// A step of all GPUs of a job on the network of its cluster.
struct JobStep {
  CopiedRun run;
  Nanoseconds step = 0;  ///< with the update after it
};

/// Messages, exchanges of tensor-parallel ranks and reductions of gradients of all copies of the pipeline, on
/// NVLink and NICs as --rank-order lays ranks out. Where nothing is shared, it is the step of `planned`.
/// Requires: the costs of `planned` are those of `workload`.
/// Errors: bad_argument under a residency limit, where computation is slower beside transfers, for NICs that
/// do not divide the GPUs of a node, an oversubscription below 1; those of analytic_costs and
/// simulate_copies.
[[nodiscard]] Expected<JobStep> job_step(const SimulatedStep& planned, const Workload& workload,
                                         const JobNetwork& network);

}  // namespace ppsim::planner

namespace ppsim {
using planner::job_step;
using planner::JobNetwork;
using planner::JobStep;
}  // namespace ppsim
