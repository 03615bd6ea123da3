#pragma once

#include <functional>
#include <map>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "ppsim/planner/evaluate.hpp"
#include "ppsim/verifier/verify.hpp"
#include "ppsim/workload/analytic.hpp"

namespace ppsim::planner {

/// The quantity that the best plan minimises. Dollars are hours of a GPU, whatever one costs.
enum class PlanObjective : std::uint8_t { time, tokens_per_dollar, memory };
[[nodiscard]] std::string_view plan_objective_name(PlanObjective objective);
/// Errors: bad_argument naming the objectives there are.
[[nodiscard]] Expected<PlanObjective> plan_objective(std::string_view name);

/// Everything that is chosen for a model, a batch and a kind of nodes.
struct PlanChoice {
  int nodes = 1;
  Parallelism parallelism;                           ///< recompute and data type included
  std::optional<CheckpointPolicy> checkpoints = {};  ///< of selective recompute; none: the stack's
  std::string schedule = "1f1b";
  std::optional<int> chunks;  ///< empty: the schedule's own number
  LayoutRule layout = LayoutRule::even;
  friend bool operator==(const PlanChoice&, const PlanChoice&) = default;

  /// As recompute_from_words takes it: "nothing_saveable".
  [[nodiscard]] std::string recompute_text() const;
};
/// "interleaved-1f1b v5, TP4 PP4 DP2 CP2, microbatch 1, ...".
std::ostream& operator<<(std::ostream& out, const PlanChoice& choice);

/// The parts of a step, in the mean over the ranks of a pipeline. They add up to it.
struct StepParts {
  Nanoseconds layers = 0;         ///< kernels, and the communication within layers that nothing hides
  Nanoseconds bubble = 0;         ///< idle, but not for a transfer
  Nanoseconds communication = 0;  ///< idle while a transfer between ranks is in flight
  Nanoseconds step_end = 0;       ///< reduction of gradients and optimizer, behind the pipeline
  friend bool operator==(const StepParts&, const StepParts&) = default;
};

/// A plan and the results of its simulation.
struct PlanRow {
  PlanChoice choice;
  PipelineLayout layout;
  Nanoseconds step = 0;
  StepParts parts;
  Bytes peak_bytes = 0;  ///< of the fullest rank, with its communicators
  Bytes memory_limit = 0;
  double tokens_per_second = 0;
  double model_flops_utilization = 0;
  friend bool operator==(const PlanRow&, const PlanRow&) = default;

  [[nodiscard]] Bytes spare_bytes() const { return memory_limit - peak_bytes; }
};

/// The progress of a search.
struct PlanProgress {
  std::int64_t parallelisms = 0;  ///< parallelisms, microbatch sizes and data types that there are
  std::int64_t bounded = 0;       ///< plans of which a bound was computed
  std::int64_t simulated = 0;     ///< of these, simulated
  std::int64_t measured = 0;      ///< of these, simulated with everything the simulator says
  std::int64_t misfits = 0;       ///< plans and groups of plans that a bound shows not to fit
  std::int64_t waiting = 0;       ///< plans and groups of plans that may still be among the best
  Nanoseconds proved = 0;         ///< no plan that was not looked at is faster (objective time)
  const PlanRow* best = nullptr;  ///< so far, or none yet
};

struct PlanRequest {
  /// Model, cluster, stack, the whole step or not; of its parallelism the global batch, the sequence and the
  /// order of the ranks.
  Workload work;
  std::vector<int> nodes;  ///< that may be used; empty: those of the cluster
  /// Values of tp, pp, dp, cp, ep, microbatch-size, schedule, chunks, layout, recompute, dtype and fsdp that
  /// are searched; missing ones are searched in full, but dtype is bf16 and fsdp is off. Those of recompute
  /// are none, selective, nothing_saveable, where it is priced, and full.
  std::map<std::string, std::vector<std::string>> fixed;
  int top = 10;
  Bytes min_spare_bytes = 0;
  PlanObjective objective = PlanObjective::time;
  std::string transport;  ///< empty: any, without the memory of communicators
  /// The front of time and memory ends at plans that are worse than the best by this factor.
  double front = 1.1;
  bool prunes = true;  ///< false: every plan is simulated with everything
  std::function<void(const PlanProgress&)> progress = {};
  std::function<bool()> stopped = {};
};

/// The result of a search.
struct Plan {
  std::vector<PlanRow> best;   ///< at most `top`, in the order of the objective
  std::vector<PlanRow> front;  ///< in the order of the objective; each needs less of the other than before
  /// Where no plan fits: the one that misses the memory by least.
  std::optional<PlanRow> tightest;
  /// Of those that were simulated and do not fit, the fastest, where it is faster than the best.
  std::optional<PlanRow> fastest_misfit;
  /// Numbers of PlanRequest::fixed that no parallelism has, or no schedule as chunks: "tp=64" on 16 GPUs.
  /// Those that only a schedule's own rules refuse are not among them.
  std::vector<std::string> unused;
  PlanProgress counts;
  bool complete = true;  ///< false: it was stopped
};

/// The best plans of all there are: a best-first search over bounds that no plan of a group is below, so
/// none is left out that would be among them.
///
/// A bound on the step is the largest, over the ranks, of the sum of the way of the first microbatch to the
/// rank, the computation of the rank, and the way back of the last gradient or its reduction; plus the
/// update. A bound on memory is what the order of a rank's row keeps in memory in any timing: parameters,
/// optimizer state, gradients, activations and workspace. docs/plan.md has the proofs.
///
/// Schedules: those of the registry that train synchronously, in whole sequences, and whose order does not
/// follow costs, with their own settings; the others where `fixed` names them.
/// Errors: bad_argument naming the key or value of `fixed` that is none, and a model whose costs are not
/// known. That no plan fits is an answer.
[[nodiscard]] Expected<Plan> plan(const PlanRequest& request);

/// One plan, whether it fits or not. Requires: no progress is told.
/// Errors: those of check_parallelism, of the schedule and of its costs.
[[nodiscard]] Expected<PlanRow> plan_row(const PlanRequest& request, const PlanChoice& choice);

/// "tp=4,pp=4,cp=2,schedule=interleaved-1f1b,chunks=5" with the keys of PlanRequest::fixed and nodes; dp
/// follows from the GPUs where it is not there, and everything else is 1, none or the first that is searched.
/// Errors: bad_argument naming the item.
[[nodiscard]] Expected<PlanChoice> parse_plan_choice(const PlanRequest& request, std::string_view text);

/// The properties that are proved of a plan on the transport, in every timing.
[[nodiscard]] Expected<VerifyReport> verify_plan(const PlanRequest& request, const PlanChoice& choice);

/// The reason why `other` takes longer than `best`: the parts that differ most, largest first, such as
/// "bubble +310 ms, step end +20 ms, layers -15 ms"; and the additional memory that it needs.
[[nodiscard]] std::string why_slower(const PlanRow& best, const PlanRow& other);

/// The difference of two choices, such as "tp 4 in place of 8, chunks 5 in place of 8".
[[nodiscard]] std::string what_differs(const PlanChoice& choice, const PlanChoice& other);

}  // namespace ppsim::planner

namespace ppsim {
using planner::parse_plan_choice;
using planner::Plan;
using planner::plan_objective;
using planner::PlanChoice;
using planner::PlanObjective;
using planner::PlanProgress;
using planner::PlanRequest;
using planner::PlanRow;
using planner::StepParts;
}  // namespace ppsim
