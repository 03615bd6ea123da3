#pragma once

#include <optional>

#include "ppsim/planner/evaluate.hpp"
#include "ppsim/workload/analytic.hpp"

namespace ppsim::planner {

/// Where checkpoints go, and who writes them. Rates are bytes a second.
struct CheckpointPlan {
  double storage = 0;                  ///< of all nodes together
  std::optional<double> node_storage;  ///< of a node; nothing: what its network takes
  bool all_replicas = true;            ///< each writes its part; else the first one, and the first of experts
  std::int64_t steps = 1;              ///< from one checkpoint to the next
  std::optional<double> mean_time_between_failures = {};  ///< seconds, of the job
};

/// The time for which training waits for a checkpoint, and the mean cost of that for a step.
struct CheckpointWait {
  Nanoseconds each = 0;
  double a_step = 0;  ///< nanoseconds
  double share = 0;   ///< of the time with checkpoints
  /// Steps between checkpoints that lose least time, with what is computed again after a failure: the square
  /// root of twice the wait times the time between failures (Young, CACM 17, 1974), and no fewer than storage
  /// needs to be done. Nothing without failures.
  std::optional<double> best_steps;
};

/// A checkpoint of weights in bf16, master weights in float32 and the optimizer's moments, each byte once.
struct CheckpointCost {
  double bytes = 0;
  double gpu_bytes = 0;  ///< of the GPU that writes most
  int writing_nodes = 1;
  Nanoseconds copy = 0;     ///< from that GPU to host memory, all at once
  Nanoseconds write = 0;    ///< to storage
  CheckpointWait together;  ///< training goes on when all is written
  CheckpointWait beside;    ///< when all is in host memory; the next one waits until storage has this one
};

/// Errors: bad_argument for rates, steps or times that are not above 0, for a step that takes no time, and
/// for one without backwards, which changes nothing that a checkpoint would keep. Requires: the costs of
/// `planned` are those of `workload`.
[[nodiscard]] Expected<CheckpointCost> checkpoint_cost(const SimulatedStep& planned, const Workload& workload,
                                                       const CheckpointPlan& plan);

}  // namespace ppsim::planner

namespace ppsim {
using planner::checkpoint_cost;
using planner::CheckpointCost;
using planner::CheckpointPlan;
using planner::CheckpointWait;
}  // namespace ppsim
