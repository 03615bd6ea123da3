#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ppsim/core/certificate/certificate.hpp"
#include "ppsim/core/io/json.hpp"
#include "ppsim/core/ir/program.hpp"
#include "ppsim/core/ir/tables.hpp"
#include "ppsim/gpu_backend/executor/execute.hpp"

namespace ppsim::planner {

class DisturbedSteps;

struct VerifiedRunOptions {
  RunOptions run;                ///< its certificate may be null: then the Program is verified first
  bool compare = false;          ///< gradients against the unpipelined reference
  double verify_timeout_s = 60;  ///< seconds
  /// Predict every step; null: what a step took predicts the one after it, in pairs after the first step.
  const CostTable* costs = nullptr;
  /// Step k of the run takes the times of its sample k, which predicts it. Null: nothing is disturbed.
  const DisturbedSteps* disturbed = nullptr;
};

/// The verdict on the gradients of a run, compared with the unpipelined reference.
enum class GradientVerdict : std::uint8_t {
  equal,     ///< bit by bit
  rounded,   ///< as far apart as sums of floating-point numbers in another order can be
  unjudged,  ///< apart after an update of the parameters, which lets rounding grow without a bound; or the
             ///< reference has diverged
  wrong,     ///< farther apart than rounding explains
};

/// Judges the largest absolute difference of gradients, the largest of which is `largest`: sums of up to 2^14
/// numbers in another order are at most 2^14 unit roundoffs apart (Higham, "Accuracy and Stability of
/// Numerical Algorithms", 2002, section 4.2), relative to the largest where little cancels. What is compared
/// with infinities or NaNs is not judged, even where all bits are equal.
[[nodiscard]] GradientVerdict judge_gradients(double difference, double largest, double unit_roundoff);

/// A run, and how it compares with what was predicted and proved about it.
struct VerifiedRun {
  RunResult run;
  std::optional<Certificate> certificate;  ///< the one that was used; none for an unverified run
  Tables measured;  ///< of all kept steps but the first, or of the only one; none where nothing was timed
  CostTable costs;  ///< that predict: those given, else of the step before the compared one
  TimedTrace simulated;  ///< of the same Program under `costs`, disturbed as the compared step was
  /// Index of the trace beside it. Under given costs that of the median step, disturbed or not; else the
  /// median of measured over simulated.
  std::size_t compared = 0;
  std::size_t predicted_steps = 0;               ///< of which it is the median
  std::vector<Nanoseconds> disturbed_steps_ns;   ///< simulated, of each finished step that was disturbed
  Nanoseconds measured_step_ns = 0;              ///< of that step
  std::optional<Nanoseconds> simulated_step_ns;  ///< where costs were given, or measured
  /// From the mean costs of that very step, where it was timed, and its costs were not disturbed.
  std::optional<Nanoseconds> repeated_step_ns;
  std::vector<Bytes> proved_bytes;           ///< per rank; empty for an unverified run
  std::optional<double> max_abs_difference;  ///< 0 only if all gradients are equal bit by bit
  std::string gradients_hash;                ///< of the last step; empty where the run hands no gradients out
  std::optional<double> largest_gradient;    ///< of the reference, by its absolute value
  std::optional<GradientVerdict> gradients;  ///< where they were compared

  /// Requires: a finished run.
  [[nodiscard]] const TimedTrace& compared_trace() const { return run.traces[compared]; }
  /// True where the start and end of instructions are known, which a GPU run without `profile` does not
  /// record. Requires: a finished run.
  [[nodiscard]] bool timed() const {
    return std::ranges::any_of(run.trace().spans, [](const Span& span) { return span.start.time >= 0; });
  }
};

/// A deadline for a step whose costs are known: ten times what the simulator says, and half a minute, as
/// DeadlineRule has it for what was measured. 0, none, for a Program that cannot finish. Units: seconds.
/// Errors: those of simulate_beside_transfers.
[[nodiscard]] Expected<double> default_deadline_s(const AnalyzedProgram& analyzed, const CostTable& costs);
/// The same where the step is known.
[[nodiscard]] double default_deadline_s(Nanoseconds step);

/// Proves well-formedness, matching, deadlock freedom and the worst-case memory under the transport of the
/// run, unless a certificate is given or the run is to be unverified, which still has to be of a Program that
/// is well-formed; then executes. On several processes,
/// process 0 proves and predicts for all, and the others return what execute() gives them. Errors: deadlock
/// or ill_formed with the counterexample when a property is refuted; refused when one stays unknown;
/// bad_argument to compare a Program without backward; those of execute and reference_gradients.
[[nodiscard]] Expected<VerifiedRun> verify_then_run(const Program& program, const StageModel& model,
                                                    const VerifiedRunOptions& options);
/// The same. Requires: a Program analyzed on the transport of the run, capabilities_of().
[[nodiscard]] Expected<VerifiedRun> verify_then_run(const AnalyzedProgram& analyzed, const StageModel& model,
                                                    const VerifiedRunOptions& options);

}  // namespace ppsim::planner

namespace ppsim {
using planner::default_deadline_s;
using planner::GradientVerdict;
using planner::judge_gradients;
using planner::VerifiedRun;
using planner::VerifiedRunOptions;
using planner::verify_then_run;
}  // namespace ppsim
